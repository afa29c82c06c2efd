//go:build e2e

package e2e

import (
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestNamespaceIsolation checks that with namespace isolation the node refuses a network of
// a namespace that is neither the pod's nor global, regardless of who created the claim
// (behaviours A4-52, B1-11, B1-12).
func TestNamespaceIsolation(t *testing.T) {
	f := setup(t, "isolated")
	f.bridge("br-iso")
	const conf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-iso","ipam":{}}`
	for _, namespace := range []string{"iso-theirs", "iso-global"} {
		f.Must(f.CreateNamespace(f.Ctx, namespace))
		t.Cleanup(func() {
			if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", namespace); err != nil {
				t.Error(err)
			}
		})
		f.Must(f.CreateNAD(f.Ctx, namespace, "net", conf))
	}
	f.nad("net", conf)
	f.Must(f.Published(f.Ctx, "isolated/net", "iso-theirs/net", "iso-global/net"))
	f.withArgs("--namespace-isolation", "--global-namespaces=iso-global")

	f.start("allowed", lab.Want{Network: "net"}, lab.Want{Network: "iso-global/net"})
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "iso-theirs/net"})))
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "web", "web"))
	f.Must(err)
	f.refused(badCase{condition: "PrepareFailed", code: reason.NamespaceIsolation, parts: []string{"iso-theirs/net", "isolated", "iso-global"}})
}

// withArgs runs the driver with more arguments until the test ends.
func (f *fixture) withArgs(args ...string) {
	f.Helper()
	remove, err := lab.AddDriverArgs(f.Ctx, f.Lab, args...)
	if remove != nil {
		f.Cleanup(func() {
			if err := remove(f.Ctx); err != nil {
				f.Error(err)
			}
		})
	}
	f.Must(err)
}
