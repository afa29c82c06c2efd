//go:build e2e

package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
)

// TestLayout gives an annotated pod a macvlan and kills the driver under it, wherever the
// node has its directories (NADRA_LAYOUT). The pod must keep its network and leave nothing. On
// a node with a read-only root, nothing may be at the usual places, and the root must be
// read-only for the driver's plugins, too.
func TestLayout(t *testing.T) {
	f := setup(t, "layout")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.master("lan-layout")
	f.nad("net", strings.NewReplacer("lan0", "lan-layout", "10.50.", "10.54.").Replace(macvlanConf))
	f.Must(f.Published(f.Ctx, "layout/net"))
	installPlugin(t, "nadra-writes", `[ "$CNI_COMMAND" = ADD ] || exit 0; for d in / /usr /etc /opt /var; do
if echo x >${d%/}/nadra-e2e 2>/dev/null; then echo $d >>/run/nadra-writes; rm ${d%/}/nadra-e2e; fi; done; `+passOn)
	f.bridge("br-layout")
	f.nad("writes", chained("br-layout", "10.54.1.0/24", "nadra-writes"))
	f.undo = append(f.undo, "rm -f /run/nadra-writes")

	_, err := f.CreatePod(f.Ctx, asking(f.NS, "web", "net,writes"))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "web", 3*time.Minute)
	f.Must(err)
	first := f.driverPIDs()
	f.sh("kill -9 " + first)
	f.Eventually(2*time.Minute, func(context.Context) error {
		if now := f.driverPIDs(); now == "" || now == first {
			return errors.New("the driver is not back")
		}
		return nil
	})
	f.Must(f.Published(f.Ctx, "layout/net"))
	for _, link := range []string{"net1", "net2"} {
		if out, err := f.Exec(f.Ctx, f.NS, "web", "ip", "addr", "show", link); err != nil || !strings.Contains(out, "10.54.") {
			t.Errorf("%s after the driver's restart: %v\n%s", link, err, out)
		}
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))

	wrote := strings.Fields(f.sh("cat /run/nadra-writes 2>/dev/null || true"))
	if f.at.ReadOnlyRoot && len(wrote) > 0 {
		t.Errorf("a plugin could write to %q", wrote)
	}
	if !f.at.ReadOnlyRoot && len(wrote) != 5 {
		t.Errorf("a plugin could only write to %q", wrote)
	}
	if f.at.Name == "" {
		return
	}
	usual := cluster.UsualLayout()
	for _, dir := range []string{
		usual.Kubelet + "/plugins", usual.Kubelet + "/plugins_registry", usual.State, usual.CNIPrograms, usual.CNIConfig, usual.NADConfig, filepath.Dir(usual.NRISocket), usual.CDI,
	} {
		if left := f.sh("ls -A " + dir + " 2>/dev/null || true"); left != "" {
			t.Errorf("%s of a node that has it elsewhere contains %s", dir, left)
		}
	}
}
