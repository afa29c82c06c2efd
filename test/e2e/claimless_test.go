//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestControllerGivesNoClaims checks that pods of a namespace with nadra.dev/claims=never run with their networks and
// without claims, on a node that refuses other pods without a claim, and only on nodes of nadra's. A pod that
// draws from a pool is refused.
func TestControllerGivesNoClaims(t *testing.T) {
	f := setup(t, "claimless")
	f.bridge("br-own")
	f.nad("blue", ownConf)
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.withArgs("--owned-nodes=labelled", "--unclaimed=refuse")
	f.label("nadra.dev/owner=nadra")
	f.Must(f.Published(f.Ctx, f.NS+"/blue"))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra", "nadra.dev/claims=never")
	f.Eventually(time.Minute, func(context.Context) error { // once the webhook has its caBundle and knows the label
		pod, err := f.dry(asking(f.NS, "dry", "blue"))
		if err == nil && pod.Spec.Affinity == nil {
			err = fmt.Errorf("pod %s has no affinity", pod.Name)
		}
		return err
	})

	created, err := f.CreatePod(f.Ctx, asking(f.NS, "web", "blue"))
	f.Must(err)
	same(t, "claims", 0, len(created.Spec.ResourceClaims))
	_, err = f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	f.runsOn("web", "net1", "10.84.0.")
	f.interfaces("web", "net1=claimless/blue")
	f.Eventually(30*time.Second, f.podEvent("web", reason.EventAttachedWithoutClaim+": ", "claimless/blue", "nadra.dev/claims=never"))

	f.Kubectl("label", "node", f.node.Name(), "nadra.dev/owner-")
	_, err = f.CreatePod(f.Ctx, asking(f.NS, "elsewhere", "blue"))
	f.Must(err)
	f.Eventually(time.Minute, f.podEvent("elsewhere", "FailedScheduling: ", "node affinity"))
	f.Kubectl("label", "node", f.node.Name(), "nadra.dev/owner=nadra")
	_, err = f.Ready(f.Ctx, f.NS, "elsewhere", 2*time.Minute)
	f.Must(err)
	f.interfaces("elsewhere", "net1=claimless/blue")

	f.nad("pool", ownConf)
	f.Kubectl("-n", f.NS, "annotate", "net-attach-def/pool", "k8s.v1.cni.cncf.io/resourceName=example.com/vf")
	f.isRefused(asking(f.NS, "vf", "pool"), lab.Code(reason.NotConvertible), "nadra.dev/claims=never")
	for _, name := range []string{"web", "elsewhere"} {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	same(t, "addresses", "", f.addresses())
}
