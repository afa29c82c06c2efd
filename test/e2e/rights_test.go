//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// capabilityBits has the capabilities that the driver's manifest may have.
// docs/security/node-rights.md explains each.
var capabilityBits = map[corev1.Capability]uint{
	"DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE,
	"NET_ADMIN":    unix.CAP_NET_ADMIN,
	"NET_RAW":      unix.CAP_NET_RAW,
	"SYS_ADMIN":    unix.CAP_SYS_ADMIN,
	"SYS_CHROOT":   unix.CAP_SYS_CHROOT,
}

// TestDriverHasFewRights checks that the driver, and its plugins, have exactly the
// capabilities of its manifest, and the runtime's seccomp filter.
func TestDriverHasFewRights(t *testing.T) {
	f := setup(t, "rights")
	f.bridge("br-rights")
	d, err := f.Kube.AppsV1().DaemonSets("nadra").Get(f.Ctx, "nadra-node", metav1.GetOptions{})
	f.Must(err)
	security := d.Spec.Template.Spec.Containers[0].SecurityContext
	if security.Privileged != nil && *security.Privileged {
		t.Error("the driver is privileged")
	}
	if !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the driver drops %q, want ALL", security.Capabilities.Drop)
	}
	var rights uint64
	for _, c := range security.Capabilities.Add {
		bit, known := capabilityBits[c]
		if !known {
			t.Errorf("the driver has %s, which docs/security/node-rights.md does not explain", c)
		}
		rights |= 1 << bit
	}
	want := fmt.Sprintf("CapEff:\t%016x CapBnd:\t%016x Seccomp:\t2", rights, rights)
	const saw = "/var/tmp/nadra-rights"
	installPlugin(t, "nadra-rights", `[ "$CNI_COMMAND" = ADD ] && { cp /proc/self/status `+saw+`; `+passOn+`; }; exit 0`)
	f.undo = append(f.undo, "rm -f "+saw)
	f.nad("blue", chained("br-rights", "10.87.0.0/24", "nadra-rights"))
	f.start("web", lab.Want{Network: "blue"})
	for _, of := range []string{"/proc/" + f.driverPIDs() + "/status", saw} {
		lines := strings.Split(strings.TrimSpace(f.sh(`grep -E '^(CapEff|CapBnd|Seccomp):' `+of)), "\n")
		if have := strings.Join(lines, " "); have != want {
			t.Errorf("%s has %q, want %q", of, have, want)
		}
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}

// TestStateOfAnotherUser runs a plugin that keeps its state in a folder that only another
// user may enter, as plugins with daemons do.
func TestStateOfAnotherUser(t *testing.T) {
	f := setup(t, "foreign")
	f.bridge("br-foreign")
	const dir = "/var/tmp/nadra-foreign"
	f.sh("install -d -m 700 -o 65534 -g 65534 " + dir)
	f.undo = append(f.undo, "rm -rf "+dir)
	f.nad("blue", fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br-foreign","ipam":{"type":"host-local","subnet":"10.88.0.0/24","dataDir":%q}}`, dir))
	leases := func() string { return f.sh("find " + dir + " -name '10.88.0.*'") }
	f.start("web", lab.Want{Network: "blue"})
	if leases() == "" {
		t.Error("a running pod has no lease in " + dir)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	if left := leases(); left != "" {
		t.Errorf("after the pod there is still %q", left)
	}
}
