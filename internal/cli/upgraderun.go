package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/internal/upgraderun"
)

const upgradeRunHelp = `Carry a plan out, one wave at a time: its namespaces become nadra's, and each of
its nodes is cordoned, drained of the pods with networks that Multus has
attached, taken from Multus, given to nadra, tried by canaries and uncordoned.
Then as many pods must be ready as were before.

A step that does not come to its end stops it; what it waits for is in the
error. How far it is, is kept in the cluster: after an interruption at any point
the same command, or resume, goes on. Nobody else can carry one out meanwhile.

A plan that something is in the way of is refused, as the cluster is now.`

const upgradeRunExamples = `  kubectl nadra upgrade plan > plan.yaml
  kubectl nadra upgrade run -f plan.yaml --dry-run=server
  # the first wave only; look around, and go on
  kubectl nadra upgrade run -f plan.yaml --wave wave-1
  kubectl nadra upgrade status
  kubectl nadra upgrade resume`

// defaultGate is how long anything may take that is waited for.
const defaultGate = 5 * time.Minute

// runFlags are those of all that carries something out.
type runFlags struct {
	*app
	nodes                     nodeFlags
	stateNamespace, confDir   string
	dryRun                    string
	force, yes, noCanary      bool
	drainTimeout, gateTimeout time.Duration
}

func (o *runFlags) add(flags *pflag.FlagSet) {
	o.nodes.addPods(flags)
	flags.StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace that keeps how far the upgrade is")
	flags.StringVar(&o.confDir, "cni-conf-dir", "/etc/cni/net.d", "where the nodes' container runtimes look for CNI configurations")
	flags.StringVar(&o.dryRun, "dry-run", "none", "none, server to have the API server check all that would be written, or client to only say it")
	flags.BoolVar(&o.force, "force", false, "delete pods that nobody makes again")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.noCanary, "no-canary", false, "do not try networks by canaries on a node that has changed hands")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Minute, "how long the pods of a node may take to go")
	flags.DurationVar(&o.gateTimeout, "gate-timeout", defaultGate, "how long anything else may take that is waited for")
}

func (o *runFlags) check() error {
	if !slices.Contains([]string{"none", "server", "client"}, o.dryRun) {
		return fmt.Errorf("reading --dry-run %q: use one of none, server, client", o.dryRun)
	}
	if o.drainTimeout <= 0 || o.gateTimeout <= 0 {
		return fmt.Errorf("--drain-timeout is %s and --gate-timeout is %s: both must be more than zero", o.drainTimeout, o.gateTimeout)
	}
	return o.nodes.check()
}

// store is where the cluster keeps the state.
func (o *runFlags) store() (upgraderun.Store, error) {
	readiness := doctorOptions{app: o.app}
	cluster, err := readiness.connect()
	return upgraderun.Store{Kube: cluster.Kube, Namespace: o.stateNamespace}, err
}

// runner carries out what the flags say.
func (o *runFlags) runner(ctx context.Context, store upgraderun.Store) (*upgraderun.Runner, error) {
	pods, err := o.nodes.pods(ctx, store.Kube)
	if err != nil {
		return nil, err
	}
	out := &upgraderun.Runner{
		Kube: store.Kube, Store: store, Nodes: *pods, ConfDir: o.confDir, Force: o.force,
		DrainTimeout: o.drainTimeout, GateTimeout: o.gateTimeout, Poll: podPoll,
		Say: func(format string, args ...any) {
			_, _ = fmt.Fprintf(o.Out, time.Now().Format("15:04:05 ")+format+"\n", args...)
		},
	}
	if o.dryRun != "none" {
		out.DryRun = o.dryRun
	}
	if !o.noCanary {
		out.Verify = o.canaries()
	}
	return out, nil
}

// confirm asks a person at a terminal, and wants --yes of all others.
func (o *runFlags) confirm(question string) error {
	if o.yes || o.dryRun != "none" {
		return nil
	}
	if err := o.askable(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(o.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// askable says that a person is at a terminal.
func (o *runFlags) askable() error {
	in, isFile := o.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return errors.New("nobody can be asked here: say --yes")
	}
	return nil
}

// carryOut does something alone, and says with which code it ended.
func (o *runFlags) carryOut(ctx context.Context, do func(context.Context, *upgraderun.Runner) error) error {
	store, err := o.store()
	if err != nil {
		return err
	}
	runner, err := o.runner(ctx, store)
	if err != nil {
		return err
	}
	alone := func(ctx context.Context) error { return do(ctx, runner) }
	if o.dryRun != "none" {
		err = alone(ctx)
	} else {
		err = store.Alone(ctx, identity(), alone)
	}
	var gate *upgraderun.GateError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(o.ErrOut, "interrupted; the state is saved: kubectl nadra upgrade resume goes on")
		return exitError(CodeInterrupted)
	case errors.Is(err, upgraderun.ErrPaused):
		_, _ = fmt.Fprintln(o.ErrOut, err)
		return exitError(CodeInterrupted)
	case errors.As(err, &gate):
		_, _ = fmt.Fprintln(o.ErrOut, "stopped:", err)
		return exitError(CodeRefused)
	}
	return err
}

// identity is who holds the Lease, for people.
func identity() string {
	host, _ := os.Hostname() // an empty one is told apart by the process
	return fmt.Sprintf("%s@%s (process %d)", os.Getenv("USER"), host, os.Getpid())
}

func (a *app) upgradeRun() *cobra.Command {
	o := &runFlags{app: a}
	var file, wave string
	command := &cobra.Command{
		Use:     "run",
		Short:   "Carry a plan out, one wave at a time",
		Long:    upgradeRunHelp,
		Example: upgradeRunExamples,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("-f is missing: kubectl nadra upgrade plan > plan.yaml makes the plan")
			}
			return o.run(command.Context(), file, wave)
		},
	}
	o.add(command.Flags())
	command.Flags().StringVarP(&file, "filename", "f", "", "file with the plan")
	command.Flags().StringVar(&wave, "wave", "", "stop after this wave")
	return command
}

func (o *runFlags) run(ctx context.Context, file, wave string) error {
	if err := o.check(); err != nil {
		return err
	}
	plan, err := readPlan(file)
	if err != nil {
		return err
	}
	if wave != "" && !slices.ContainsFunc(plan.Waves, func(w upgrade.Wave) bool { return w.Name == wave }) {
		return fmt.Errorf("reading --wave: the plan has no wave %q", wave)
	}
	if err := o.inTheWay(ctx, plan); err != nil {
		return err
	}
	if err := o.confirm(fmt.Sprintf("Carry the plan out on %s (%s)?", plan.Source, plan.Summary)); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgraderun.Runner) error {
		state, err := o.stateOf(ctx, r.Store)
		if err != nil {
			return err
		}
		return r.Run(ctx, plan, state, wave)
	})
}

// stateOf is what the cluster knows of an upgrade, or the state of one with
// which nobody has begun.
func (o *runFlags) stateOf(ctx context.Context, store upgraderun.Store) (*upgrade.State, error) {
	_, state, _, err := store.Load(ctx)
	switch {
	case errors.Is(err, upgraderun.ErrNone):
		return upgrade.NewState(), nil
	case err != nil:
		return nil, err
	case state.Target != "":
		return nil, fmt.Errorf("%s is being rolled back: kubectl nadra upgrade resume goes on with that", state.Target)
	case o.dryRun == "none":
		err = store.Pause(ctx, false) // whoever says run does not want to pause
	}
	return state, err
}

// inTheWay refuses a plan that has blockers as the cluster is now.
func (o *runFlags) inTheWay(ctx context.Context, plan *upgrade.Plan) error {
	p := planOptions{app: o.app, quiet: true, Options: upgrade.Options{DomainLabel: plan.DomainLabel}}
	for _, m := range plan.Multus {
		p.multus = append(p.multus, m.Namespace+"/"+m.DaemonSet)
	}
	facts, err := p.facts(ctx)
	if err != nil {
		return err
	}
	now := upgrade.Check(plan, facts)
	blocked := slices.DeleteFunc(now, func(one upgrade.Problem) bool {
		return one.Severity != upgrade.Blocker || o.force && one.Code == upgrade.CodeBare
	})
	if len(blocked) == 0 {
		return nil
	}
	p.tell(&upgrade.Plan{Problems: blocked})
	_, _ = fmt.Fprintln(o.ErrOut, "refused: the plan has blockers")
	return exitError(CodeRefused)
}
