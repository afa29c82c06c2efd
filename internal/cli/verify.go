package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/report"
	"github.com/nadra-dev/nadra/internal/snapshot"
)

const verifyHelp = `Say what has become of the pods' networks.

With --against, compare now with an earlier kubectl nadra snapshot, or with
--now two snapshots. Pods are brought together by name; else by their workload
and their number, or their node for a DaemonSet. A difference is expected (what
comes with a pod's being made anew), a warning, or a blocker: the pod does not
have what it had. kubectl nadra explain says what each code means.

With --canary, run a small pod for each network and node that offers it, look
whether the interface is there, and have the canaries of a network ping each
other over it. They go the way of a workload: through the webhook, or to Multus,
whoever serves their namespace. They take addresses while they run; --dry-run
says how many. They are deleted again in every case.`

const verifyExamples = `  # the difference after the move, from inside of the nodes, too
  kubectl nadra verify --against before.json --from-nodes
  # for the change ticket, and for a pipeline
  kubectl nadra verify --against before.json -o markdown > difference.md
  kubectl nadra verify --against before.json --now after.json -o junit --fail-on warning
  # leave out what was changed on purpose
  kubectl nadra verify --against before.json --ignore NADRA-V02,NADRA-V61
  # try all networks of a namespace, or one on some nodes
  kubectl nadra verify --canary -n core5g --dry-run
  kubectl nadra verify --canary --nad core5g/n3 --node worker-1,worker-2`

type verifyOptions struct {
	*app
	against, now string
	nodes        []string
	look         nodeFlags
	ignore       []string
	strict       bool
	format       string
	failOn       failOn
	quiet        bool
	canary       canaryFlags
}

func (a *app) verify() *cobra.Command {
	o := &verifyOptions{app: a}
	command := &cobra.Command{
		Use:     "verify",
		Short:   "Compare networks with a snapshot, or try them by canaries",
		Long:    verifyHelp,
		Example: verifyExamples,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&o.against, "against", "", "file that kubectl nadra snapshot has written, to compare with")
	flags.StringVar(&o.now, "now", "", "another such file, to compare instead of the live cluster")
	flags.StringSliceVar(&o.nodes, "node", nil, "only pods that are, or were, on these nodes; with --canary the nodes to run on")
	flags.StringSliceVar(&o.ignore, "ignore", nil, "codes of differences to leave out")
	flags.BoolVar(&o.strict, "strict", false, "count expected differences, too: exit code 2 where there are any")
	flags.StringVarP(&o.format, "output", "o", "table", "form of the report: "+strings.Join(report.VerifyFormats(), ", "))
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "tell no progress")
	o.look.add(flags)
	o.canary.add(flags)
	o.failOn.addFlag(flags)
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.VerifyFormats(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o *verifyOptions) check() error {
	switch {
	case !slices.Contains(report.VerifyFormats(), o.format):
		return fmt.Errorf("reading --output %q: use one of %s", o.format, strings.Join(report.VerifyFormats(), ", "))
	case o.canary.on == (o.against != ""):
		return errors.New("give one of --against, with a snapshot, and --canary")
	case o.now != "" && (o.canary.on || o.look.fromNodes):
		return errors.New("--now looks at a file: leave out --canary and --from-nodes")
	case o.canary.on && (o.look.fromNodes || o.strict || len(o.ignore) > 0):
		return errors.New("--from-nodes, --strict and --ignore are about --against: leave them out with --canary")
	case !o.canary.on && o.canary.given():
		return errors.New("-l, --nad, --canary-namespace, --canary-timeout, --parallel, --per-node and --dry-run are about --canary: leave them out with --against")
	}
	for i, text := range o.ignore {
		o.ignore[i] = strings.ToUpper(text)
		if _, found := snapshot.RuleOf(snapshot.Code(o.ignore[i])); !found {
			return fmt.Errorf("reading --ignore: there is no code %q: kubectl nadra explain lists all", text)
		}
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
	was, err := readSnapshot(o.against)
	if err != nil {
		return err
	}
	now, err := o.readNow(ctx, was)
	if err != nil {
		return err
	}
	options := snapshot.Options{Nodes: o.nodes, Namespace: *o.cluster.Namespace}
	for _, code := range o.ignore {
		options.Ignore = append(options.Ignore, snapshot.Code(code))
	}
	r, err := snapshot.Compare(was, now, options)
	if err != nil {
		return err
	}
	if err := report.WriteVerify(o.Out, o.format, r); err != nil {
		return err
	}
	if o.strict && o.failOn != failNever {
		return failWarning.verdict(r.Summary.Warning+r.Summary.Expected, r.Summary.Blocker)
	}
	return o.failOn.verdict(r.Summary.Warning, r.Summary.Blocker)
}

// readNow is the file of --now, or the live cluster as far as the snapshot goes.
func (o *verifyOptions) readNow(ctx context.Context, was *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	if o.now != "" {
		return readSnapshot(o.now)
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

func readSnapshot(path string) (*snapshot.Snapshot, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	s, err := snapshot.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot %s: %w", path, err)
	}
	return s, nil
}
