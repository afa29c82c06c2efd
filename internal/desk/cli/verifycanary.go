package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
)

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
	flags.IntVar(&c.parallel, "parallel", 20, "number of canaries at a time; those of one network always run together")
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
	config, err := o.cluster.config(giveKubeconfig)
	if err != nil {
		return err
	}
	cluster, err := o.cluster.live()
	if err != nil {
		return err
	}
	read := canary.Networks{
		Kube: cluster.Kube, NADs: cluster.NADs, Namespace: cluster.Namespace, Own: cluster.Namespace,
		Selector: o.canary.selector, Names: o.canary.nads, Nodes: o.nodes,
	}
	if o.canary.allNamespaces {
		read.Namespace = ""
	}
	nads, offers, err := read.Read(ctx)
	if err != nil {
		return err
	}
	settings := canary.Settings{Run: rand.String(8), Namespace: o.canary.namespace, Timeout: o.canary.timeout}
	driver, image, err := driverImage(ctx, cluster.Kube, o.look.image)
	switch {
	case err == nil:
		settings.Image = image
	case !o.canary.dryRun.on(): // a dry run needs no image
		return err
	}
	if driver != nil {
		settings.PullSecrets, settings.SecretsNamespace = driver.PullSecrets, driver.Namespace
	}
	plan := canary.NewPlan(canary.Input{
		NADs: nads, Offers: offers.Networks, Pools: offers.Pools, Nodes: o.nodes, PerNode: o.canary.perNode, Settings: settings,
	})
	plan.Source = "cluster " + o.cluster.contextName()
	if o.canary.dryRun.on() {
		return report.CanaryPlan.Write(o.Out, o.format.value, plan)
	}
	progress := newProgress(o.ErrOut, o.quiet)
	progress.say("Testing %d networks by %d canaries", len(plan.Networks), plan.Pods)
	runner := canary.Runner{
		Kube: cluster.Kube, Exec: canary.NewExec(config, cluster.Kube), Parallel: o.canary.parallel, Poll: podPoll,
		Progress: func(what string) { progress.say("%s", what) },
	}
	r, err := runner.Run(ctx, plan)
	progress.stop()
	if err != nil {
		return err
	}
	if err := report.Canary.Write(o.Out, o.format.value, r); err != nil {
		return err
	}
	return o.failOn.verdict(translate.Counts{Warning: r.Summary.Warning, Blocker: r.Summary.Blocker})
}
