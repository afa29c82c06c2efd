package doctor

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/nodepod"
)

// pod returns the pod that probes a node.
func (p Probe) pod(node string, nadra *Nadra) *corev1.Pod {
	return p.runner(nadra).Pod(node, p.args(nadra))
}

// runner returns the runner of the probe's pods.
func (p Probe) runner(nadra *Nadra) nodepod.Runner {
	out := nodepod.Runner{Kube: p.Kube, Raw: p.Raw, Namespace: p.Namespace, Image: p.Image, Timeout: p.Timeout, Poll: p.Poll}
	if nadra != nil && p.Namespace == nadra.Namespace {
		out.PullSecrets = nadra.PullSecrets
	}
	return out
}

// args returns the probe's arguments, with the paths of the driver.
func (p Probe) args(nadra *Nadra) []string {
	cdi := []string{"/etc/cdi"}
	if dir := nadra.Flag("cdi-dir", "/var/run/cdi"); dir != cdi[0] {
		cdi = append(cdi, dir)
	}
	confs := []string{nadra.Flag("cni-conf-dir", "/etc/cni/net.d"), nadra.Flag("nad-conf-dir", "/etc/cni/multus/net.d")}
	bins, state := cmp.Or(p.BinDirs, nadra.Flag("cni-bin-dirs", "/opt/cni/bin")), []string(nil)
	if strings.Contains(bins, "image:") { // an older driver knows neither
		state = []string{"--state-dir=" + nadra.Flag("state-dir", "/var/lib/nadra")}
	}
	return append([]string{
		"probe",
		"--host-root=" + nodepod.HostRoot,
		"--nri-socket=" + nadra.Flag("nri-socket", "/var/run/nri/nri.sock"),
		"--cdi-dirs=" + strings.Join(cdi, ","),
		"--cni-bin-dirs=" + bins,
		"--cni-conf-dirs=" + strings.Join(confs, ","),
	}, state...)
}
