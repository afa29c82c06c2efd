//go:build e2e

package dropin

import (
	"testing"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestSwitchTouchesNoRunningPod changes the owner of namespaces and nodes. Running pods
// must not change, and the owner that attached them must detach them.
func TestSwitchTouchesNoRunningPod(t *testing.T) {
	f := setup(t, "running")
	f.networks()
	multus, nadra := "node/"+f.multus.Name(), "node/"+f.nadra.Name()
	t.Cleanup(func() { // before the fixture's own
		f.Must(f.Label(f.Ctx, multus, ""))
		f.Must(f.Label(f.Ctx, nadra, api.OwnerNadra))
		f.Must(publishing(f.Ctx, f.multus, false))
	})
	f.ApplyYAML(lab.Workload("Deployment", "left", "", asked, ""))
	left := f.pods("left", 1)[0]
	f.servedBy(api.OwnerMultus, left, askedNetworks)
	leftBefore := f.view(left)

	f.owner(api.OwnerNadra)
	f.ApplyYAML(lab.Workload("Deployment", "right", "", "lan", ""))
	right := f.pods("right", 1)[0]
	f.servedBy(api.OwnerNadra, right, 1)
	rightBefore := f.view(right)
	f.unchanged("giving the namespace to nadra", left, leftBefore)

	f.owner(api.OwnerMultus)
	f.Must(f.Label(f.Ctx, nadra, ""))
	f.Must(publishing(f.Ctx, f.nadra, false))
	f.unchanged("taking the node from nadra", right, rightBefore)

	f.Must(f.Label(f.Ctx, multus, api.OwnerNadra))
	f.Must(publishing(f.Ctx, f.multus, true))
	f.unchanged("giving the node to nadra", left, leftBefore)
	f.servedBy(api.OwnerMultus, left, askedNetworks)

	// Its networks are deleted although its node has no owner any more; the fixture checks
	// that nothing is left.
	f.Kubectl("delete", "deployment", "right", "--timeout=60s")
	f.Must(f.noPods("right"))
	f.unchanged("the end of another pod", left, leftBefore)
}
