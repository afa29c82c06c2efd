package cniexec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// infoDir is the directory of the device information specification, a path in the host.
// Device plugins write below dp in it, CNI plugins below cni (behaviours A5-59 and
// A5-60).
const infoDir = "/var/run/k8s.cni.cncf.io/devinfo"

// infoCapability hands plugins the path of their device information file.
const infoCapability = "CNIDeviceInfoFile"

// maxInfo limits the size of device information in bytes. It is far more than any has.
const maxInfo = 64 << 10

// maxFileName is the kernel's limit for the bytes of a file's name (NAME_MAX).
const maxFileName = 255

// infoPath returns the path in the host at which the plugins of one attachment describe
// its device. The file has the name that Multus gives it (behaviour A5-60), or, where that would be
// too long for a file, one with a hash of the network's name.
func (r *Runner) infoPath(s attachment.Sandbox, a attachment.Attachment) string {
	network, of := a.Network.Namespace+"-"+a.Network.Name, "-"+s.ID+"_"+a.Interface
	if len(network)+len(of) > maxFileName {
		sum := sha256.Sum256([]byte(network))
		network = hex.EncodeToString(sum[:16])
	}
	return filepath.Join(r.infoDir, "cni", network+of)
}

// canExist reports whether a file may have the name of a path.
func canExist(path string) bool { return len(filepath.Base(path)) <= maxFileName }

// prepareInfo makes the directory for a chain that declares the capability and copies the
// device plugin's device information into it, if there is any (behaviour A5-61).
func (r *Runner) prepareInfo(list *libcni.NetworkConfigList, s attachment.Sandbox, a attachment.Attachment) error {
	known, err := r.devicePluginInfo(a)
	if err != nil || !declaresInfo(list) && known == nil {
		return err
	}
	path, err := inHost(r.exec.root, r.infoPath(s, a))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return reason.Errorf(reason.StateNotWritten, "making the directory for device information: %w", err)
	}
	if known == nil {
		return nil
	}
	if err := os.WriteFile(path, known, 0o600); err != nil {
		return reason.Errorf(reason.StateNotWritten, "copying the device plugin's device information: %w", err)
	}
	return nil
}

// devicePluginInfo returns the device plugin's device information about the attachment's
// device, or nil if the attachment has no device or there is no such information.
func (r *Runner) devicePluginInfo(a attachment.Attachment) ([]byte, error) {
	raw, ok := a.CapabilityArgs["deviceID"]
	if !ok || a.ResourceName == "" {
		return nil, nil
	}
	var deviceID string
	if err := json.Unmarshal(raw, &deviceID); err != nil {
		return nil, fmt.Errorf("reading the device's ID: %w", err)
	}
	flat := strings.NewReplacer("/", "-")
	path := filepath.Join(r.infoDir, "dp", flat.Replace(a.ResourceName)+"-"+flat.Replace(deviceID)+"-device.json")
	if !canExist(path) {
		return nil, nil
	}
	path, err := inHost(r.exec.root, path)
	if err != nil {
		return nil, err
	}
	return readInfo(path)
}

// DeviceInfo returns the plugins' device information about the device of an attachment,
// as JSON, or nil if they wrote none.
func (r *Runner) DeviceInfo(s attachment.Sandbox, a attachment.Attachment) (json.RawMessage, error) {
	path, err := inHost(r.exec.root, r.infoPath(s, a))
	if err != nil {
		return nil, err
	}
	return readInfo(path)
}

// removeInfo removes the device information at a path in the host, which prepareInfo or a
// plugin wrote (behaviour A5-62). Earlier versions of nadra gave plugins paths that cannot exist.
func (r *Runner) removeInfo(path string) error {
	if !canExist(path) {
		return nil
	}
	path, err := inHost(r.exec.root, path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing device information: %w", err)
	}
	return nil
}

// readInfo reads a file of device information, or returns nil if there is none.
func readInfo(path string) ([]byte, error) {
	data, err := atomicfile.Read(path, maxInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading device information: %w", err)
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("reading device information: %s is not valid JSON", path)
	}
	return data, nil
}

// declaresInfo reports whether a plugin of the chain declares the capability.
func declaresInfo(list *libcni.NetworkConfigList) bool {
	for _, p := range list.Plugins {
		if p.Network.Capabilities[infoCapability] {
			return true
		}
	}
	return false
}

// inHost returns the driver's path for a path in the host.
func inHost(root, path string) (string, error) {
	inside, err := securejoin.SecureJoin(root, path)
	if err != nil {
		return "", fmt.Errorf("finding %s in the host: %w", path, err)
	}
	return inside, nil
}
