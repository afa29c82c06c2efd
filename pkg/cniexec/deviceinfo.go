package cniexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// infoDir is the device information specification's directory, a path in the
// host: device plugins write to dp in it, CNI plugins to cni (behaviours A5-59
// and A5-60).
const infoDir = "/var/run/k8s.cni.cncf.io/devinfo"

// infoCapability hands plugins the path of their device information file.
const infoCapability = "CNIDeviceInfoFile"

// maxInfo is far more than any device information has, in bytes.
const maxInfo = 64 << 10

// infoPath is where the plugins of one attachment say what its device is; a
// path in the host, with Multus' name (behaviour A5-60).
func (r *Runner) infoPath(s attachment.Sandbox, a attachment.Attachment) string {
	network := a.Network.Namespace + "-" + a.Network.Name
	return filepath.Join(r.infoDir, "cni", fmt.Sprintf("%s-%s_%s", network, s.ID, a.Interface))
}

// prepareInfo makes the directory for a chain that declares the capability,
// and puts there what the device plugin says about the device (behaviour
// A5-61). That it says nothing is no error.
func (r *Runner) prepareInfo(list *libcni.NetworkConfigList, s attachment.Sandbox, a attachment.Attachment) error {
	known, err := r.devicePluginInfo(a)
	if err != nil || !declaresInfo(list) && known == nil {
		return err
	}
	path, err := r.inHost(r.infoPath(s, a))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory for device information: %w", err)
	}
	if known == nil {
		return nil
	}
	if err := os.WriteFile(path, known, 0o600); err != nil {
		return fmt.Errorf("copying the device plugin's device information: %w", err)
	}
	return nil
}

// devicePluginInfo returns what the device plugin says about the attachment's
// device; nil where it has none, or says nothing.
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
	path, err := r.inHost(filepath.Join(r.infoDir, "dp", flat.Replace(a.ResourceName)+"-"+flat.Replace(deviceID)+"-device.json"))
	if err != nil {
		return nil, err
	}
	return readInfo(path)
}

// DeviceInfo returns what the plugins of an attachment have said about its
// device, as JSON; nil when they said nothing.
func (r *Runner) DeviceInfo(s attachment.Sandbox, a attachment.Attachment) (json.RawMessage, error) {
	path, err := r.inHost(r.infoPath(s, a))
	if err != nil {
		return nil, err
	}
	return readInfo(path)
}

// removeInfo removes what prepareInfo or a plugin has left at a path in the
// host (behaviour A5-62).
func (r *Runner) removeInfo(path string) error {
	path, err := r.inHost(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing device information: %w", err)
	}
	return nil
}

func readInfo(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxInfo {
		err = fmt.Errorf("%s has %d bytes, %d at most are allowed", path, info.Size(), maxInfo)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading device information: %w", err)
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("reading device information: %s is not JSON", path)
	}
	return data, nil
}

func declaresInfo(list *libcni.NetworkConfigList) bool {
	for _, p := range list.Plugins {
		if p.Network.Capabilities[infoCapability] {
			return true
		}
	}
	return false
}

// inHost is a path of the host as the driver sees it.
func (r *Runner) inHost(path string) (string, error) {
	inside, err := securejoin.SecureJoin(r.exec.root, path)
	if err != nil {
		return "", fmt.Errorf("finding %s in the host: %w", path, err)
	}
	return inside, nil
}
