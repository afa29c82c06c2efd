package cluster

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sysctl is a setting of the whole kernel that a node sees as a file of its
// own: kubelet would change the first three for the real machine, and the boot
// ID has to change with each boot of the node.
type sysctl struct{ path, value string }

const bootIDPath = "/proc/sys/kernel/random/boot_id"

var sysctls = []sysctl{
	{path: "/proc/sys/kernel/panic", value: "10"},
	{path: "/proc/sys/kernel/panic_on_oops", value: "1"},
	{path: "/proc/sys/vm/overcommit_memory", value: "1"},
	{path: bootIDPath}, // a new one at each boot
}

func (n *Node) sysctlFile(path string) string {
	return filepath.Join(n.folder, "sysctl", filepath.Base(path))
}

func (n *Node) configFile(name string) string { return filepath.Join(n.folder, "etc", name) }

// createDisk fills the disk of a new node.
func (n *Node) createDisk(options Options) error {
	runtime := n.artifacts.runtime()
	if err := runtime.configure(n, options); err != nil {
		return err
	}
	kubelet, err := json.MarshalIndent(kubeletConfig(n.IP(), string(n.group), runtime.socket(), n.Layout().Kubelet, options.kubeletFields()), "", "  ")
	if err != nil {
		return fmt.Errorf("rendering the configuration of kubelet: %w", err)
	}
	network, err := json.MarshalIndent(defaultNetwork(options.families().podCIDRs(n.number)...), "", "  ")
	if err != nil {
		return fmt.Errorf("rendering the default network: %w", err)
	}
	cniConfig, err := n.diskPath(n.Layout().CNIConfig)
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		n.configFile("kubelet.json"):                    kubelet,
		filepath.Join(cniConfig, "10-default.conflist"): network,
	} {
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	return n.installPlugins()
}

// writeBootFiles writes the files that are new at each boot.
func (n *Node) writeBootFiles() error {
	for _, s := range sysctls {
		if s.path == bootIDPath {
			s.value = randomUUID()
		}
		if err := writeFile(n.sysctlFile(s.path), []byte(s.value+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// installPlugins copies the CNI plugins to the node's disk, because tests add and remove
// plugins.
func (n *Node) installPlugins() error {
	target, err := n.diskPath(n.Layout().CNIPrograms)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(target, os.DirFS(n.artifacts.CNI)); err != nil {
		return fmt.Errorf("installing CNI plugins on %s: %w", n.name, err)
	}
	return nil
}

// InstallPlugin puts a program among the CNI plugins of a running node.
func (n *Node) InstallPlugin(name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	outside, err := n.HostPath(filepath.Join(n.Layout().CNIPrograms, name))
	if err != nil {
		return err
	}
	return replaceFile(outside, content, 0o755)
}

// snapshotter returns the snapshotter that works for a disk at path. Overlays cannot be
// stacked, which matters inside a container.
func snapshotter(path string) string {
	var info unix.Statfs_t
	for ; path != "/"; path = filepath.Dir(path) {
		if err := unix.Statfs(path, &info); err == nil {
			break
		}
	}
	if info.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// randomUUID returns a random (version 4) UUID, the form of a boot ID.
func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
