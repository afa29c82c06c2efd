package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const verifyHelp = `Compare the networks of pods with an earlier snapshot, or test networks by canaries.

With --against, compare the cluster with an earlier kubectl nadra snapshot, or with
--now two snapshots. Pods match by name, or otherwise by their workload and ordinal
(for a DaemonSet, their node). A difference is info (a pod was recreated), a
warning, or a blocker: the pod lacks something that it had. kubectl nadra explain
explains each code.

With --canary, run a small pod for each network and node that offers it, check that
the interface exists, and let the canaries of a network ping each other. Canaries are
treated like a workload: the webhook converts them, or Multus serves them, by the
owner of their namespace. They use addresses while they run; --dry-run prints how
many. They are always deleted again.`

const verifyExamples = `  # the difference after the migration, with pods on the nodes
  kubectl nadra verify --against before.json --probe
  # in a pipeline
  kubectl nadra verify --against before.json --now after.json --fail-on warning
  # ignore intended changes
  kubectl nadra verify --against before.json --ignore NADRA-402,NADRA-461
  # test all networks of a namespace, or one network on some nodes
  kubectl nadra verify --canary -n core5g --dry-run
  kubectl nadra verify --canary --nad core5g/n3 --node worker-1,worker-2`

type verifyOptions struct {
	*app
	against, now string
	nodes        []string
	look         nodeFlags
	ignore       []string
	ignored      []translate.Code
	strict       bool
	format       formatFlag
	failOn       failOn
	quiet        bool
	canary       canaryFlags
}

func (a *app) verify() *cobra.Command {
	o := &verifyOptions{app: a}
	command := leaf("verify", "Compare networks with a snapshot, or test them by canaries", verifyHelp, verifyExamples, o.run)
	flags := command.Flags()
	flags.StringVar(&o.against, "against", "", "snapshot to compare with, a file of kubectl nadra snapshot")
	flags.StringVar(&o.now, "now", "", "second snapshot, to compare instead of the live cluster")
	flags.StringSliceVar(&o.nodes, "node", nil, "compare only pods that are, or were, on these nodes; with --canary, run canaries only there")
	flags.StringSliceVar(&o.ignore, "ignore", nil, "codes of differences to ignore")
	flags.BoolVar(&o.strict, "strict", false, "also count differences of severity info: exit code 2 if there are any")
	o.format.addFlag(command, report.Verify.Names())
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print no progress")
	o.look.add(flags, false)
	o.canary.add(flags)
	o.failOn.addFlag(flags)
	return command
}

func (o *verifyOptions) check() error {
	switch {
	case o.canary.on == (o.against != ""):
		return errors.New("use either --against, with a snapshot, or --canary")
	case o.now != "" && (o.canary.on || o.look.probe):
		return errors.New("--now compares a file: leave out --canary and --probe")
	case o.canary.on && (o.look.probe || o.strict || len(o.ignore) > 0):
		return errors.New("--probe, --strict and --ignore need --against: leave them out with --canary")
	case !o.canary.on && o.canary.set():
		return errors.New("-l, --nad, --canary-namespace, --canary-timeout, --parallel, --per-node and --dry-run need --canary: leave them out with --against")
	}
	for _, text := range o.ignore {
		code := codeOf(text)
		if _, found := snapshot.RuleOf(code); !found {
			return fmt.Errorf("reading --ignore: there is no code %q: kubectl nadra explain lists all", text)
		}
		o.ignored = append(o.ignored, code)
	}
	if o.canary.on {
		return o.canary.check()
	}
	return o.look.check()
}

func (o *verifyOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.canary.on {
		return o.runCanaries(ctx)
	}
	was, err := readDocument("the snapshot", o.against, snapshot.Parse)
	if err != nil {
		return err
	}
	now, err := o.readNow(ctx, was)
	if err != nil {
		return err
	}
	options := snapshot.Options{Nodes: o.nodes, Namespace: *o.cluster.Namespace, Ignore: o.ignored}
	r, err := snapshot.Compare(was, now, options)
	if err != nil {
		return err
	}
	if err := report.Verify.Write(o.Out, o.format.value, r); err != nil {
		return err
	}
	n := r.Summary.Findings
	if o.strict && o.failOn.value != failNever {
		n.Warning += n.Info
		return verdict(failWarning, n)
	}
	return o.failOn.verdict(n)
}

// readNow reads the file of --now, or takes a snapshot of the same part of the live cluster.
func (o *verifyOptions) readNow(ctx context.Context, was *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	if o.now != "" {
		return readDocument("the snapshot", o.now, snapshot.Parse)
	}
	of := scope{namespace: was.Namespace, selector: was.Selector}
	if given := *o.cluster.Namespace; given != "" {
		of.namespace = given
	}
	for _, n := range was.Networks {
		of.known = append(of.known, n.String())
	}
	return o.takeLive(ctx, of, &o.look, o.quiet)
}
