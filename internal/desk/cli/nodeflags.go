package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/nodepod"
)

// podPoll is the pause between reads of a created pod.
const podPoll = 500 * time.Millisecond

// nodeFlags are the flags of commands that run pods on nodes.
type nodeFlags struct {
	probe     bool
	namespace string
	image     string
	timeout   time.Duration
}

// add adds --probe, with its default, and the flags of the pods.
func (n *nodeFlags) add(flags *pflag.FlagSet, byDefault bool) {
	flags.BoolVar(&n.probe, "probe", byDefault, "also run a short-lived pod on each node, which reads what only the node has")
	n.addPods(flags)
}

// addPods adds the flags of the pods that the command runs on nodes.
func (n *nodeFlags) addPods(flags *pflag.FlagSet) {
	flags.StringVar(&n.namespace, "probe-namespace", "nadra", "namespace of the driver, and of the pods that the command creates; it must exist and allow host access")
	flags.StringVar(&n.image, "image", "", "image with nadra-node for the pods that the command creates (default the running driver's)")
	flags.DurationVar(&n.timeout, "probe-timeout", time.Minute, "time limit for the pod of each node")
}

// addOutputFile adds --output-file: what is written to a file that the user names.
func addOutputFile(flags *pflag.FlagSet, name *string, file, what string) {
	flags.StringVar(name, "output-file", file, "file for "+what)
}

// check rejects invalid values.
func (n *nodeFlags) check() error {
	if n.timeout <= 0 {
		return fmt.Errorf("--probe-timeout is %s: it must be more than zero", n.timeout)
	}
	return nil
}

// runner returns a runner of pods on nodes, or nil without --probe.
func (n *nodeFlags) runner(ctx context.Context, kube kubernetes.Interface) (*nodepod.Runner, error) {
	if !n.probe {
		return nil, nil
	}
	out, _, err := n.pods(ctx, kube)
	return out, err
}

// pods returns a runner of pods on nodes, and the running driver, or nil if there is none.
func (n *nodeFlags) pods(ctx context.Context, kube kubernetes.Interface) (*nodepod.Runner, *doctor.Nadra, error) {
	driver, _, err := driverImage(ctx, kube, n.namespace, n.image)
	if err != nil {
		return nil, nil, err
	}
	out := driver.Pods(n.podsOf(kube))
	return &out, driver, nil
}

// podsOf returns a runner of pods on nodes with the image of --image.
func (n *nodeFlags) podsOf(kube kubernetes.Interface) nodepod.Runner {
	return nodepod.Runner{Kube: kube, Raw: rawOf(kube), Namespace: n.namespace, Image: n.image, Timeout: n.timeout, Poll: podPoll}
}

// driverImage returns the image of --image, or that of the running driver, as doctor.Driver finds it. The driver is nil
// if there is none.
func driverImage(ctx context.Context, kube kubernetes.Interface, namespace, image string) (*doctor.Nadra, string, error) {
	driver, err := doctor.Driver(ctx, kube, namespace)
	switch {
	case image != "":
		return driver, image, nil // only the driver's pull secrets are needed
	case err != nil:
		return nil, "", err
	case driver == nil:
		return nil, "", fmt.Errorf("finding an image for the pods: nadra's driver is not installed in %s: name its namespace by --probe-namespace, or an image with nadra-node by --image", cmp.Or(namespace, "any namespace"))
	}
	return driver, driver.Image, nil
}
