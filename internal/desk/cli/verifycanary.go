package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// defaultParallel is the default number of canaries at a time.
const defaultParallel = 20

// canaryFlags are the flags of verify --canary.
type canaryFlags struct {
	on, allNamespaces   bool
	dryRun              dryRunFlag
	selector, namespace string
	nads                []string
	timeout             time.Duration
	parallel, perNode   int
	flags               *pflag.FlagSet
}

// canaryOnly lists the flags that need --canary.
var canaryOnly = []string{"selector", "nad", "canary-namespace", "canary-timeout", "parallel", "per-node", "dry-run"}

// add adds the flags.
func (c *canaryFlags) add(flags *pflag.FlagSet) {
	c.flags = flags
	flags.BoolVar(&c.on, "canary", false, "run a pod for each network and node, and let them ping each other")
	flags.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "with --canary: test the networks of all namespaces; --against uses the snapshot's namespaces")
	flags.StringVarP(&c.selector, "selector", "l", "", "with --canary: test only networks with these labels")
	flags.StringSliceVar(&c.nads, "nad", nil, "with --canary: test these NetworkAttachmentDefinitions, as [NAMESPACE/]NAME")
	flags.StringVar(&c.namespace, "canary-namespace", "", "namespace of the canaries (default each network's own)")
	flags.DurationVar(&c.timeout, "canary-timeout", 2*time.Minute, "time limit until a canary is ready")
	flags.IntVar(&c.parallel, "parallel", defaultParallel, "number of canaries at a time; those of one network always run together")
	flags.IntVar(&c.perNode, "per-node", 1, "number of canaries of a network on each node")
	c.dryRun.addFlag(flags, "client prints the canaries and the number of addresses that they use, and runs none", dryClient)
}

// set reports whether a flag that needs --canary is set.
func (c *canaryFlags) set() bool {
	return slices.ContainsFunc(canaryOnly, func(name string) bool { return c.flags.Changed(name) })
}

// check rejects invalid values.
func (c *canaryFlags) check() error {
	switch {
	case c.timeout <= 0:
		return fmt.Errorf("--canary-timeout is %s: it must be more than zero", c.timeout)
	case c.parallel < 1:
		return fmt.Errorf("--parallel is %d: it must be at least 1", c.parallel)
	case c.perNode < 1:
		return fmt.Errorf("--per-node is %d: it must be at least 1", c.perNode)
	case len(c.nads) > 0 && (c.allNamespaces || c.selector != ""):
		return errors.New("--nad selects networks by name: leave out -A and -l")
	}
	return nil
}

// runCanaries tests networks, or prints the plan with --dry-run.
func (o *verifyOptions) runCanaries(ctx context.Context) error {
	cluster, err := o.cluster.live()
	if err != nil {
		return err
	}
	read := canary.Networks{Namespace: cluster.Namespace, Own: cluster.Namespace, Selector: o.canary.selector, Names: o.canary.nads, Nodes: o.nodes}
	if o.canary.allNamespaces {
		read.Namespace = ""
	}
	plan, runner, err := o.planCanaries(ctx, read, canary.Input{
		PerNode: o.canary.perNode, Settings: canary.Settings{Namespace: o.canary.namespace, Timeout: o.canary.timeout, Image: o.look.image},
	}, o.canary.dryRun.on())
	if err != nil {
		return err
	}
	if o.canary.dryRun.on() {
		return report.CanaryPlan.Write(o.Out, o.format.value, plan)
	}
	progress := newProgress(o.ErrOut, o.quiet)
	progress.say("Testing %d networks by %d canaries", len(plan.Networks), plan.Pods)
	runner.Parallel, runner.Progress = o.canary.parallel, func(what string) { progress.say("%s", what) }
	r, err := runner.Run(ctx, plan)
	progress.stop()
	if err != nil {
		return err
	}
	if err := report.Canary.Write(o.Out, o.format.value, r); err != nil {
		return err
	}
	return o.failOn.verdict(r.Summary.Counts)
}

// planCanaries reads networks, and plans their canaries with the image of the settings, or else the driver's; a dry run
// needs none. Canaries that are nadra's by their owner are planned only for what nadra serves on their node.
func (a *app) planCanaries(ctx context.Context, read canary.Networks, in canary.Input, dryRun bool) (*canary.Plan, *canary.Runner, error) {
	config, err := a.cluster.config(giveKubeconfig)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := a.connect()
	if err != nil {
		return nil, nil, err
	}
	read.Kube, read.NADs = cluster.Kube, cluster.NADs
	nads, offers, err := read.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	if in.Owner == v1alpha1.OwnerNadra {
		nadra, _, err := installation.Find(ctx, cluster.Kube)
		if err != nil {
			return nil, nil, err
		}
		in.BesideMultus = nadra.BesideMultus()
		nads = slices.DeleteFunc(nads, func(nad *nadv1.NetworkAttachmentDefinition) bool {
			ofMultus := in.BesideMultus && !nadra.Pools() && attachment.PoolOf(nad.Annotations) != "" // the webhook leaves their pods to Multus
			return ofMultus || !slices.Contains(offers.Networks[attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}], read.Nodes[0])
		})
	}
	driver, image, err := driverImage(ctx, cluster.Kube, "", in.Image)
	if err != nil && !dryRun {
		return nil, nil, err
	}
	if driver != nil {
		in.PullSecrets, in.SecretsNamespace = driver.PullSecrets, driver.Namespace
	}
	in.NADs, in.Offers, in.Pools, in.Nodes, in.Run, in.Image = nads, offers.Networks, offers.Pools, read.Nodes, rand.String(8), image
	plan := canary.NewPlan(in)
	plan.Source = "cluster " + cluster.Name
	return plan, &canary.Runner{Kube: cluster.Kube, Exec: canary.NewExec(config, cluster.Kube), Parallel: defaultParallel, Poll: podPoll}, nil
}
