package doctor

import (
	"cmp"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
)

// Pods returns a runner with the driver's image, unless it has another one, and with the Secrets that an image needs. A driver
// in another namespace than the pods, which see the host, gives them nothing: it may be a tenant's DaemonSet.
func (n *Nadra) Pods(r nodepod.Runner) nodepod.Runner {
	if n != nil && r.Namespace == n.Namespace {
		r.Image, r.PullSecrets = cmp.Or(r.Image, n.Image), n.PullSecrets
	}
	return r
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
