package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/doctorread"
	"github.com/nadra-dev/nadra/internal/nodepod"
)

// podPoll is how often a pod that was made is asked for.
const podPoll = 500 * time.Millisecond

// nodeFlags are those of commands that look into pods from their nodes.
type nodeFlags struct {
	fromNodes bool
	namespace string
	image     string
	timeout   time.Duration
}

func (n *nodeFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&n.fromNodes, "from-nodes", false, "look into the pods from inside of their nodes, too, by a short-lived pod on each")
	n.addPods(flags)
}

// addPods are those of the pods that are made.
func (n *nodeFlags) addPods(flags *pflag.FlagSet) {
	flags.StringVar(&n.namespace, "probe-namespace", "nadra", "namespace of these pods; it must be there, and let pods see the host")
	flags.StringVar(&n.image, "image", "", "image of pods that are made, with nadra-node; the running driver's unless given")
	flags.DurationVar(&n.timeout, "probe-timeout", time.Minute, "how long the pod of a node may take")
}

func (n *nodeFlags) check() error {
	if n.timeout <= 0 {
		return fmt.Errorf("--probe-timeout is %s: it must be more than zero", n.timeout)
	}
	return nil
}

// runner is what looks at nodes; nil where none is to be looked at.
func (n *nodeFlags) runner(ctx context.Context, kube kubernetes.Interface) (*nodepod.Runner, error) {
	if !n.fromNodes {
		return nil, nil
	}
	return n.pods(ctx, kube)
}

// pods runs pods on nodes.
func (n *nodeFlags) pods(ctx context.Context, kube kubernetes.Interface) (*nodepod.Runner, error) {
	driver, image, err := driverImage(ctx, kube, n.image)
	if err != nil {
		return nil, err
	}
	out := &nodepod.Runner{
		Kube: kube, Namespace: n.namespace, Image: image, Timeout: n.timeout, Poll: podPoll,
		Raw: func(ctx context.Context, path string) ([]byte, error) {
			return kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		},
	}
	if driver != nil && driver.Namespace == n.namespace {
		out.PullSecrets = driver.PullSecrets
	}
	return out, nil
}

// driverImage is the image that was given, or else that of the driver that runs.
func driverImage(ctx context.Context, kube kubernetes.Interface, given string) (*doctor.Nadra, string, error) {
	driver, err := doctorread.Driver(ctx, kube)
	switch {
	case given != "":
		return driver, given, nil // the driver is only good for its Secrets
	case err != nil:
		return nil, "", err
	case driver == nil:
		return nil, "", errors.New("there is no image to run, since nadra's driver was not found: --image names one with nadra-node")
	}
	return driver, driver.Image, nil
}
