//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
)

// With namespace isolation on, the node refuses the network of a namespace that
// is neither the pod's nor global, whatever has made the claim (behaviours
// A4-52, B1-11, B1-12).
func TestNamespaceIsolation(t *testing.T) {
	f := setup(t, "isolated")
	f.bridge("br-iso")
	const conf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-iso","ipam":{}}`
	for _, namespace := range []string{"iso-theirs", "iso-global"} {
		f.must(f.CreateNamespace(f.ctx, namespace))
		t.Cleanup(func() {
			if _, err := f.Cluster.Kubectl(f.ctx, "delete", "namespace", namespace); err != nil {
				t.Error(err)
			}
		})
		f.must(f.CreateNAD(f.ctx, namespace, "net", conf))
	}
	f.nad("net", conf)
	f.must(f.Published(f.ctx, "isolated/net", "iso-theirs/net", "iso-global/net"))
	f.withArgs("--namespace-isolation", "--global-namespaces=iso-global")

	f.start("allowed", lab.Want{Network: "net"}, lab.Want{Network: "iso-global/net"})
	f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, "web", lab.Want{Network: "iso-theirs/net"})))
	_, err := f.CreatePod(f.ctx, lab.Pod(f.ns, "web", "web"))
	f.must(err)
	f.refused(badCase{reason: "PrepareFailed", says: []string{
		"network iso-theirs/net is of another namespace than the pod, which is in isolated", "shared are those of iso-global", "use a NetworkAttachmentDefinition in isolated",
	}})
}

// withArgs has the driver run with further arguments until the test ends.
func (f *fixture) withArgs(args ...string) {
	f.Helper()
	patch := func(what string) {
		f.Helper()
		if out, err := f.Cluster.Kubectl(f.ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", "["+what+"]"); err != nil {
			f.Errorf("changing the driver's arguments: %v\n%s", err, out)
		}
		if out, err := f.Cluster.Kubectl(f.ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=2m"); err != nil {
			f.Errorf("waiting for the driver: %v\n%s", err, out)
		}
	}
	const list = "/spec/template/spec/containers/0/args"
	var add, remove []string
	for _, arg := range args {
		add = append(add, `{"op":"add","path":"`+list+`/-","value":"`+arg+`"}`)
		remove = append(remove, `{"op":"remove","path":"`+list+`/2"}`) // behind the manifest's own two
	}
	patch(strings.Join(add, ","))
	f.Cleanup(func() { patch(strings.Join(remove, ",")) })
}
