package lab

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
)

// Fixture is a test on a Lab, with a namespace of its own. Its methods fail the test instead
// of returning errors.
type Fixture struct {
	*Lab
	*testing.T
	// Ctx ends when the test's time is over.
	Ctx context.Context
	// NS is the test's namespace; empty if it has none.
	NS string
}

// Must fails the test if err is not nil.
func (f *Fixture) Must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// DriverAccount is the account of the driver in the manifests.
const DriverAccount = "system:serviceaccount:nadra:nadra-node"

// AsDriver returns a client with the rights of the driver on a node.
func (f *Fixture) AsDriver(node string) kubernetes.Interface {
	f.Helper()
	config, err := f.Cluster.RESTConfig()
	f.Must(err)
	config.Impersonate = rest.ImpersonationConfig{UserName: DriverAccount, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	client, err := kubernetes.NewForConfig(config)
	f.Must(err)
	return client
}

// Eventually repeats check until it succeeds, and fails the test with its last error after
// limit.
func (f *Fixture) Eventually(limit time.Duration, check func(context.Context) error) {
	f.Helper()
	f.Must(Eventually(f.Ctx, limit, check))
}

// Kubectl runs kubectl, in the test's namespace unless args name another one, and returns
// what it prints.
func (f *Fixture) Kubectl(args ...string) string {
	f.Helper()
	if f.NS != "" {
		args = append([]string{"-n", f.NS}, args...)
	}
	out, err := f.Cluster.Kubectl(f.Ctx, args...)
	f.Must(err)
	return out
}

// ApplyYAML creates objects, given as YAML, in the test's namespace.
func (f *Fixture) ApplyYAML(yaml string) {
	f.Helper()
	_, err := f.Cluster.KubectlInput(f.Ctx, yaml, "-n", f.NS, "apply", "-f", "-")
	f.Must(err)
}

// NodeOf returns the node that a pod runs on.
func (f *Fixture) NodeOf(p *corev1.Pod) *cluster.Node {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		if n.Name() == p.Spec.NodeName {
			return n
		}
	}
	f.Fatalf("pod %s is on node %q", p.Name, p.Spec.NodeName)
	return nil
}
