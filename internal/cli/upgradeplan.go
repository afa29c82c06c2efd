package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/report"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/internal/upgraderun"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const upgradePlanHelp = `Say in which waves nodes and namespaces would move, which pods are evicted by it,
and what is in the way. It only reads.

The first wave is one node, the one whose move disturbs the fewest pods, and no
namespace. Every other wave has nodes of one failure domain, as many as may be
unavailable at a time, and never two whose pods a PodDisruptionBudget would not
let go together. Namespaces follow, those with few pods first, so that nadra at
no time serves a greater share of the pods than of the nodes.

The plan is YAML to be reviewed, edited and kept. With -o markdown it is a page
for the change ticket. What is in the way is in it, and on standard error.`

const upgradePlanExamples = `  kubectl nadra upgrade plan > plan.yaml
  # two nodes at a time, of the same rack
  kubectl nadra upgrade plan --max-unavailable 2 --domain-label example.com/rack
  # begin with one, and leave two nodes to what must stay with Multus
  kubectl nadra upgrade plan --first node-7 --exclude node-1,node-2
  # the page for the change ticket, of a plan that was made before
  kubectl nadra upgrade plan --from plan.yaml -o markdown`

type planOptions struct {
	*app
	upgrade.Options
	maxUnavailable string
	multus         []string
	from, format   string
	quiet          bool
	failOn         failOn
}

func (a *app) upgradePlan() *cobra.Command {
	o := &planOptions{app: a}
	command := &cobra.Command{
		Use:     "plan",
		Short:   "Say in which waves the cluster would move, without changing anything",
		Long:    upgradePlanHelp,
		Example: upgradePlanExamples,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&o.maxUnavailable, "max-unavailable", "1", "how many nodes a wave has at most, or how many percent of them")
	flags.StringSliceVar(&o.First, "first", nil, "nodes that go first, in this order")
	flags.StringSliceVar(&o.Exclude, "exclude", nil, "nodes that stay with Multus")
	flags.StringVar(&o.DomainLabel, "domain-label", corev1.LabelTopologyZone, "node label whose values are failure domains")
	flags.StringSliceVar(&o.multus, "multus", nil, "NAMESPACE/NAME of Multus' DaemonSets; those that are recognized, unless given")
	flags.StringVar(&o.from, "from", "", "file with a plan, to check and write in another form")
	flags.StringVarP(&o.format, "output", "o", "yaml", "form of the plan: "+strings.Join(report.UpgradePlanFormats(), ", "))
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "tell no progress, and only blockers of what is in the way")
	o.failOn.addFlag(flags)
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.UpgradePlanFormats(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o *planOptions) run(ctx context.Context) error {
	if !slices.Contains(report.UpgradePlanFormats(), o.format) {
		return fmt.Errorf("reading --output %q: use one of %s", o.format, strings.Join(report.UpgradePlanFormats(), ", "))
	}
	plan, err := o.plan(ctx)
	if err != nil {
		return err
	}
	if err := report.WriteUpgradePlan(o.Out, o.format, plan); err != nil {
		return err
	}
	o.tell(plan)
	return o.failOn.verdict(plan.Summary.Warnings, plan.Summary.Blockers)
}

func (o *planOptions) plan(ctx context.Context) (*upgrade.Plan, error) {
	if o.from != "" {
		return readPlan(o.from)
	}
	facts, err := o.facts(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.checkNames(facts); err != nil {
		return nil, err
	}
	if o.MaxUnavailable, err = nodesAtOnce(o.maxUnavailable, len(facts.Nodes)); err != nil {
		return nil, err
	}
	return upgrade.NewPlan(facts, o.Options), nil
}

func readPlan(path string) (*upgrade.Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	plan, err := upgrade.ParsePlan(text)
	if err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", path, err)
	}
	return plan, nil
}

// nodesAtOnce reads a number of nodes, or a part of them in percent, rounded
// down but never to none.
func nodesAtOnce(text string, nodes int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1:
		return 0, fmt.Errorf("reading --max-unavailable %q: it must be a number from 1, or one with %%", text)
	case percent:
		return max(n*nodes/100, 1), nil
	}
	return n, nil
}

// checkNames refuses names of nodes that there are none of: a plan that leaves
// out another node than was meant is not to be had by a slip.
func (o *planOptions) checkNames(f upgrade.Facts) error {
	for _, given := range []struct {
		flag  string
		names []string
	}{{"--first", o.First}, {"--exclude", o.Exclude}} {
		for _, name := range given.names {
			if !slices.ContainsFunc(f.Nodes, func(n upgrade.Node) bool { return n.Name == name }) {
				return fmt.Errorf("reading %s: the cluster has no node %q", given.flag, name)
			}
		}
	}
	return nil
}

// facts reads the cluster three times over: as doctor and scan do, for their
// blockers, and what only a plan needs to know.
func (o *planOptions) facts(ctx context.Context) (upgrade.Facts, error) {
	readiness := doctorOptions{app: o.app, quiet: o.quiet}
	caps, err := readiness.capabilities(ctx)
	if err != nil {
		return upgrade.Facts{}, err
	}
	multus, err := o.multusOf(caps)
	if err != nil {
		return upgrade.Facts{}, err
	}
	cluster, err := readiness.connect()
	if err != nil {
		return upgrade.Facts{}, err
	}
	progress := newProgress(o.ErrOut, o.quiet)
	defer progress.stop()
	objects, err := upgraderun.Cluster{Kube: cluster.Kube, Progress: func(what string) { progress.say("Reading %s", what) }}.Objects(ctx)
	if err != nil {
		return upgrade.Facts{}, err
	}
	facts := objects.Facts(o.DomainLabel, multus)
	facts.Source = caps.Source
	for _, check := range doctor.NewReport(caps).Checks {
		if check.Status == doctor.Blocker {
			facts.Doctor = append(facts.Doctor, strings.TrimSpace(check.ID+" "+check.Object)+": "+check.What)
		}
	}
	scanned, err := o.scanned(ctx)
	if err != nil {
		return facts, err
	}
	facts.AddVerdicts(scanned)
	return facts, nil
}

// scanned are the verdicts of scan over the whole cluster.
func (o *planOptions) scanned(ctx context.Context) ([]translate.Verdict, error) {
	in := &input{app: o.app, allNamespaces: true, podInfo: true, quiet: o.quiet}
	set, err := in.read(ctx)
	if err != nil {
		return nil, err
	}
	r := report.Build(report.Input{Result: in.convert(set)})
	out := make([]translate.Verdict, 0, len(r.Workloads))
	for _, w := range r.Workloads {
		out = append(out, w.Verdict)
	}
	return out, nil
}

// multusOf are the DaemonSets that were named, or else recognized.
func (o *planOptions) multusOf(caps doctor.Capabilities) ([]upgrade.MultusRef, error) {
	var out []upgrade.MultusRef
	for _, text := range o.multus {
		namespace, name, ok := strings.Cut(text, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("reading --multus %q: it must be NAMESPACE/NAME of a DaemonSet", text)
		}
		out = append(out, upgrade.MultusRef{Namespace: namespace, DaemonSet: name})
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, m := range caps.Multus {
		out = append(out, upgrade.MultusRef{Namespace: m.Namespace, DaemonSet: m.DaemonSet})
	}
	return out, nil
}

// tell says on standard error what is in the way.
func (o *planOptions) tell(p *upgrade.Plan) {
	for _, one := range p.Problems {
		if o.quiet && one.Severity != upgrade.Blocker || one.Severity == upgrade.Note {
			continue
		}
		about := ""
		if one.Object != "" {
			about = one.Object + ": "
		}
		_, _ = fmt.Fprintf(o.ErrOut, "%s %s: %s%s\n  %s\n", one.Severity, one.Code, about, one.What, one.Do)
	}
	if !o.quiet {
		_, _ = fmt.Fprintln(o.ErrOut, p.Summary)
	}
}
