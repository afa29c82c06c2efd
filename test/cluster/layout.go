package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// layoutVariable chooses where every node has its directories: "elsewhere", or empty for the
// usual places.
const layoutVariable = "NADRA_LAYOUT"

// Elsewhere is the layout of a node as image-based distributions have it: its root file
// system is read-only, everything that components write is elsewhere, and nadra takes the
// reference CNI plugins from their image.
const Elsewhere = "elsewhere"

// Layout has the paths on a node that differ between distributions.
type Layout struct {
	// Name is empty for the usual places.
	Name string
	// Kubelet is the kubelet's root directory.
	Kubelet string
	// CNIPrograms has the CNI plugins, CNIConfig the configuration of the default network,
	// and NADConfig those of NADs without spec.config.
	CNIPrograms, CNIConfig, NADConfig string
	// NRISocket is the socket of the runtime's plugins, and CDI the directory of its specs.
	NRISocket, CDI string
	// State is nadra's directory.
	State string
	// PluginImage means that nadra looks for plugins in the image with the reference plugins, and then in CNIPrograms,
	// which are the runtime's.
	PluginImage bool
	// ReadOnlyRoot means that nothing can be written but the node's own folders, /run and
	// /tmp.
	ReadOnlyRoot bool

	// folders are on the node's own disk: path → name on the disk.
	folders map[string]string
}

// layouts has all layouts by their names.
var layouts = map[string]Layout{
	"": {
		Kubelet: "/var/lib/kubelet", CNIPrograms: "/opt/cni/bin", CNIConfig: "/etc/cni/net.d", NADConfig: "/etc/cni/multus/net.d",
		NRISocket: "/var/run/nri/nri.sock", CDI: "/var/run/cdi", State: "/var/lib/nadra",
		folders: map[string]string{
			"/var/lib/kubelet": "kubelet", "/var/lib/nadra": "nadra", "/etc/cni": "cni-config", "/opt/cni": "cni-programs",
		},
	},
	Elsewhere: {
		Name:    Elsewhere,
		Kubelet: "/srv/kubelet", CNIPrograms: "/srv/cni/bin", CNIConfig: "/srv/cni/net.d", NADConfig: "/srv/cni/multus/net.d",
		NRISocket: "/run/elsewhere/nri.sock", CDI: "/run/elsewhere-cdi", State: "/srv/nadra", ReadOnlyRoot: true, PluginImage: true,
		// The kubelet has its device plugins in a fixed directory, whatever its root is.
		folders: map[string]string{"/srv": "srv", "/var/lib/kubelet": "device-plugins"},
	},
}

// Flags returns the flags of nadra-node for the layout.
func (l Layout) Flags() []string {
	programs := l.CNIPrograms
	if l.PluginImage {
		programs = "image:reference," + programs
	}
	return []string{
		"--state-dir=" + l.State, "--cni-bin-dirs=" + programs, "--cni-conf-dir=" + l.CNIConfig, "--nad-conf-dir=" + l.NADConfig,
		"--nri-socket=" + l.NRISocket, "--cdi-dir=" + l.CDI,
		"--kubelet-plugins-dir=" + l.Kubelet + "/plugins", "--kubelet-registry-dir=" + l.Kubelet + "/plugins_registry",
		"--pod-resources-socket=" + l.Kubelet + "/pod-resources/kubelet.sock",
	}
}

// checkLayout refuses layouts that do not exist, and those that guests cannot have.
func checkLayout(o Options) error {
	if _, known := layouts[o.Layout]; !known {
		names := slices.Sorted(maps.Keys(layouts))
		return fmt.Errorf("%s is %q: it must be one of %q", layoutVariable, o.Layout, names)
	}
	if o.Layout != "" && o.Guests > 0 {
		return fmt.Errorf("%s is %q: guests have the usual layout only", layoutVariable, o.Layout)
	}
	return nil
}

// LayoutOf returns where the nodes of a cluster with these options have their directories.
func LayoutOf(o Options) Layout { return layouts[cmp.Or(o.Layout, os.Getenv(layoutVariable))] }

// UsualLayout returns the layout that nodes have by default.
func UsualLayout() Layout { return layouts[""] }

// Layout returns where the nodes have their directories.
func (c *Cluster) Layout() Layout { return layouts[c.options.Layout] }

// Layout returns where the node has its directories.
func (n *Node) Layout() Layout { return n.cluster.Layout() }

// diskPath returns the folder on the node's disk that has a path of the node.
func (n *Node) diskPath(path string) (string, error) {
	for target, source := range n.folders {
		if rest, ok := strings.CutPrefix(path, target); ok && (rest == "" || rest[0] == '/') {
			return source + rest, nil
		}
	}
	return "", fmt.Errorf("%s is not on the disk of %s", path, n.name)
}
