package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const upgradeRunHelp = `Run a plan, one wave at a time. nadra becomes the owner of the wave's namespaces.
Each node of the wave is cordoned; a pod on it checks that nadra can adopt what Multus
has attached there; then Multus is disabled on the node, nadra becomes its owner and
adopts these networks, canaries test the networks, and the node is uncordoned. Pods run
on: none is evicted or restarted. At the end of a wave, as many pods must be ready as
before.

Beside Multus on one node, no node changes. For each namespace of the wave, canaries
test its networks; then nadra becomes its owner, its Deployments, StatefulSets and
DaemonSets are restarted by a rollout, one after the other, and a snapshot of its pods
is compared with one from before. A rollout does not ask PodDisruptionBudgets.

Each step is a line on standard error. A step that does not finish stops the upgrade;
the error names what it waited for. The state is kept in the cluster: after an
interruption at any point the same command, or resume, continues. Only one upgrade
can run at a time.

A plan that has blockers in the current cluster is refused.

With --wave the run ends after that wave. Start it from cron or a pipeline to move only
at certain times, or between checks of your own.`

const upgradeRunExamples = `  # what would be done; the API server checks it
  kubectl nadra upgrade plan > plan.yaml
  kubectl nadra upgrade run -f plan.yaml --dry-run=server
  # all waves
  kubectl nadra upgrade run -f plan.yaml
  # only the first wave; check the result, and continue
  kubectl nadra upgrade run -f plan.yaml --wave wave-1
  kubectl nadra upgrade status
  kubectl nadra upgrade resume`

// defaultGate is the default time limit for each wait.
const defaultGate = 5 * time.Minute

// runFlags are the flags of commands that change the cluster.
type runFlags struct {
	*app
	nodes                     nodeFlags
	stateNamespace, confDir   string
	dryRun                    dryRunFlag
	force, yes, noCanary      bool
	drainTimeout, gateTimeout time.Duration
}

// add adds the flags.
func (o *runFlags) add(flags *pflag.FlagSet) {
	o.nodes.addPods(flags)
	o.addStateNamespace(flags)
	flags.StringVar(&o.confDir, "cni-conf-dir", "", "directory of CNI configurations of the nodes' container runtimes (default that of the driver's --cni-conf-dir)")
	o.dryRun.addFlag(flags, "client prints what would be done, and server has the API server check the changes, too; none is made", dryClient, dryServer)
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&o.noCanary, "no-canary", false, "do not test networks by canaries on a node that has moved")
	flags.DurationVar(&o.gateTimeout, "gate-timeout", defaultGate, "time limit for each wait")
}

// addDrain adds the flags of commands that move nodes and namespaces back to Multus.
func (o *runFlags) addDrain(flags *pflag.FlagSet) {
	flags.BoolVar(&o.force, "force", false, "in a rollback, delete pods that no controller recreates")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Minute, "in a rollback, time limit for the eviction of the pods of a node or namespace")
}

// addStateNamespace adds --state-namespace.
func (o *runFlags) addStateNamespace(flags *pflag.FlagSet) {
	flags.StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace of the upgrade's state")
}

// check rejects invalid values.
func (o *runFlags) check() error {
	if o.gateTimeout <= 0 {
		return fmt.Errorf("--gate-timeout is %s: it must be more than zero", o.gateTimeout)
	}
	return o.nodes.check()
}

// checkDrain rejects invalid values, also of the flags of addDrain.
func (o *runFlags) checkDrain() error {
	if o.drainTimeout <= 0 {
		return fmt.Errorf("--drain-timeout is %s: it must be more than zero", o.drainTimeout)
	}
	return o.check()
}

// store returns the store of the upgrade's state in the cluster.
func (o *runFlags) store() (upgrade.Store, error) {
	cluster, err := o.connect()
	return upgrade.Store{Kube: cluster.Kube, Namespace: o.stateNamespace}, err
}

// runner returns a runner for the flags.
func (o *runFlags) runner(ctx context.Context, store upgrade.Store) (*upgrade.Runner, error) {
	pods, driver, err := o.nodes.pods(ctx, store.Kube)
	if err != nil {
		return nil, err
	}
	if driver == nil && !o.dryRun.on() {
		return nil, fmt.Errorf("finding nadra's driver: namespace %s has none that you may list: name its namespace by --probe-namespace", o.nodes.namespace)
	}
	confDir, kept := multusDirs(driver, o.confDir)
	out := &upgrade.Runner{
		Kube: store.Kube, Store: store, Nodes: *pods, ConfDir: confDir, Kept: kept, MultusDir: driver.Flag("multus-cni-dir", "/var/lib/cni/multus"), Force: o.force,
		DrainTimeout: o.drainTimeout, GateTimeout: o.gateTimeout, Poll: podPoll,
		DryRun: o.dryRun.mode(), Say: o.say(time.TimeOnly + " "), Snapshots: upgrade.Snapshots{Take: o.takeSnapshot, Compare: compareSnapshots},
	}
	if !o.noCanary {
		out.Verify, out.VerifyNamespace = o.nodeCanaries, o.namespaceCanaries
	}
	return out, nil
}

// say returns a function that prints a line of progress, with the time in a format.
func (o *runFlags) say(clock string) func(format string, args ...any) {
	return func(format string, args ...any) {
		o.note("%s%s%s", time.Now().Format(clock), fmt.Sprintf(format, args...), o.dryRun.note())
	}
}

// multusDirs returns the directory in which the runtime reads Multus' configuration, and the one
// that keeps it, which is in the driver's state. confDir is the user's choice.
func multusDirs(driver *doctor.Nadra, confDir string) (conf, kept string) {
	return cmp.Or(confDir, driver.Flag("cni-conf-dir", "/etc/cni/net.d")), path.Join(driver.Flag("state-dir", "/var/lib/nadra"), "multus")
}

// confirm asks for confirmation at a terminal, with the name of the cluster, and requires --yes without one.
func (o *runFlags) confirm(question string) error {
	if o.yes || o.dryRun.on() {
		return nil
	}
	if err := o.askable(); err != nil {
		return err
	}
	_, _ = fmt.Fprint(o.ErrOut, report.Visible("On cluster "+cmp.Or(*o.cluster.APIServer, *o.cluster.ClusterName, o.cluster.contextName())+": "+question), " [y/N] ")
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// askable returns an error unless standard input is a terminal.
func (o *runFlags) askable() error {
	in, isFile := o.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return errors.New("asking for confirmation: standard input is not a terminal: use --yes")
	}
	return nil
}

// carryOut runs do while it holds the upgrade's lock, and returns an error with the exit
// code.
func (o *runFlags) carryOut(ctx context.Context, do func(context.Context, *upgrade.Runner) error) error {
	store, err := o.store()
	if err != nil {
		return err
	}
	runner, err := o.runner(ctx, store)
	if err != nil {
		return err
	}
	alone := func(ctx context.Context) error { return do(ctx, runner) }
	if o.dryRun.on() {
		err = alone(ctx)
	} else {
		err = store.Alone(ctx, identity(), alone)
	}
	var gate *upgrade.GateError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, upgrade.ErrNotSaved):
		return o.exit(CodeInterrupted, "interrupted; kubectl nadra upgrade resume continues, and repeats the last step: %v", err)
	case ctx.Err() != nil:
		return o.exit(CodeInterrupted, "interrupted; the state is saved: kubectl nadra upgrade resume continues")
	case errors.Is(err, upgrade.ErrPaused):
		return o.exit(CodeInterrupted, "%v", err)
	case errors.As(err, &gate), reason.Of(err) == reason.LeaseLost:
		return o.exit(CodeRefused, "stopped: %v", err)
	}
	return err
}

// identity returns the name of this process in the Lease, for people.
func identity() string {
	host, _ := os.Hostname() // the process ID is enough without it
	return fmt.Sprintf("%s@%s (process %d)", cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME")), host, os.Getpid())
}

func (a *app) upgradeRun() *cobra.Command {
	o := &runFlags{app: a}
	var file, wave string
	command := leaf("run", "Run a plan, one wave at a time", upgradeRunHelp, upgradeRunExamples, func(ctx context.Context) error {
		if file == "" {
			return errors.New("-f is required: kubectl nadra upgrade plan > plan.yaml writes a plan")
		}
		return o.run(ctx, file, wave)
	})
	o.add(command.Flags())
	command.Flags().StringVarP(&file, "filename", "f", "", "file with the plan")
	command.Flags().StringVar(&wave, "wave", "", "stop after this wave")
	return command
}

func (o *runFlags) run(ctx context.Context, file, wave string) error {
	if err := o.check(); err != nil {
		return err
	}
	plan, err := readDocument("the plan", file, upgrade.ParsePlan)
	if err != nil {
		return err
	}
	if wave != "" && !slices.ContainsFunc(plan.Waves, func(w upgrade.Wave) bool { return w.Name == wave }) {
		return fmt.Errorf("reading --wave: the plan has no wave %q", wave)
	}
	if err := o.refuseBlocked(ctx, plan); err != nil {
		return err
	}
	if err := o.confirm(fmt.Sprintf("Run the plan, made for %s (%s)?", cmp.Or(plan.Source, "an unknown cluster"), plan.Summary)); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgrade.Runner) error {
		state, err := o.stateOf(ctx, r.Store)
		if err != nil {
			return err
		}
		return r.Run(ctx, plan, state, wave)
	})
}

// stateOf returns the upgrade's state in the cluster, or the state of a new upgrade.
func (o *runFlags) stateOf(ctx context.Context, store upgrade.Store) (*upgrade.State, error) {
	_, state, _, err := store.Load(ctx)
	switch {
	case errors.Is(err, upgrade.ErrNone):
		return upgrade.NewState(), nil
	case err != nil:
		return nil, err
	case state.Target != "":
		return nil, fmt.Errorf("%s is being rolled back: kubectl nadra upgrade resume continues the rollback, and kubectl nadra upgrade rollback --all rolls everything back", state.Target)
	}
	return state, nil
}

// refuseBlocked returns an error if the plan has blockers in the current cluster.
func (o *runFlags) refuseBlocked(ctx context.Context, plan *upgrade.Plan) error {
	p := planOptions{app: o.app, quiet: true, Options: upgrade.Options{DomainLabel: plan.DomainLabel}}
	for _, m := range plan.Multus {
		p.multus = append(p.multus, m.Namespace+"/"+m.DaemonSet)
	}
	facts, err := p.facts(ctx)
	if err != nil {
		return err
	}
	now := upgrade.Check(plan, facts)
	blocked := slices.DeleteFunc(now, func(p translate.Finding) bool { return p.Severity != translate.Blocker })
	if len(blocked) == 0 {
		return nil
	}
	o.printProblems(blocked, true)
	return o.exit(CodeRefused, "refused: the plan has blockers")
}
