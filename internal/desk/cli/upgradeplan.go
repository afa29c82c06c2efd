package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const upgradePlanHelp = `Plan the waves in which nodes and namespaces move, with the pods that nadra adopts and
the obstacles. It only reads.

The first wave has no namespace and one node: the one with the fewest pods with
networks. Every other wave has nodes of one failure domain, up to --max-unavailable.
Namespaces follow, those with few pods first, so that nadra never serves a greater
share of the pods than of the nodes.

Beside Multus on one node, no node moves. The plan then has the namespaces in waves, with
the workloads that a rollout restarts, and the pods that nadra serves from their next
start on. --max-unavailable, --first and --exclude are about namespaces.

The plan is YAML to review, edit and keep. With -o markdown it is a page for the
change ticket. It includes the obstacles, which are also printed on standard error.`

const upgradePlanExamples = `  kubectl nadra upgrade plan > plan.yaml
  # two nodes at a time, of the same rack
  kubectl nadra upgrade plan --max-unavailable 2 --domain-label example.com/rack
  # begin with one node, and leave two nodes to Multus
  kubectl nadra upgrade plan --first node-7 --exclude node-1,node-2
  # the page for the change ticket, from an existing plan
  kubectl nadra upgrade plan --from plan.yaml -o markdown`

type planOptions struct {
	*app
	upgrade.Options
	maxUnavailable string
	multus         []string
	from           string
	format         formatFlag
	beside, quiet  bool
	failOn         failOn
}

func (a *app) upgradePlan() *cobra.Command {
	o := &planOptions{app: a}
	command := leaf("plan", "Plan the waves of an upgrade, without changing anything", upgradePlanHelp, upgradePlanExamples, o.run)
	flags := command.Flags()
	flags.StringVar(&o.maxUnavailable, "max-unavailable", "1", "largest number of nodes in a wave, or percentage of all nodes; beside Multus, of namespaces")
	flags.StringSliceVar(&o.First, "first", nil, "nodes of the first waves, in this order; beside Multus, namespaces")
	flags.StringSliceVar(&o.Exclude, "exclude", nil, "nodes that stay with Multus; beside Multus, namespaces")
	flags.StringVar(&o.DomainLabel, "domain-label", corev1.LabelTopologyZone, "node label whose values are failure domains")
	flags.StringSliceVar(&o.multus, "multus", nil, "NAMESPACE/NAME of Multus' DaemonSets (default those that are recognized)")
	flags.BoolVar(&o.beside, "beside-multus", false, "plan for nadra beside Multus on one node, before nadra is installed so; otherwise the flags of the installed nadra say it")
	flags.StringVar(&o.from, "from", "", "file with a plan, to check and to write in another format")
	o.format.addFlag(command, report.UpgradePlan.Names())
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print no progress, and only obstacles that are blockers")
	o.failOn.addFlag(flags)
	return command
}

func (o *planOptions) run(ctx context.Context) error {
	plan, err := o.plan(ctx)
	if err != nil {
		return err
	}
	if err := report.UpgradePlan.Write(o.Out, o.format.value, plan); err != nil {
		return err
	}
	o.printProblems(plan.Findings, o.quiet)
	if !o.quiet {
		o.note("%v", plan.Summary)
	}
	return o.failOn.verdict(translate.Count(plan.Findings))
}

// plan makes a plan for the cluster, or reads the one of --from.
func (o *planOptions) plan(ctx context.Context) (*upgrade.Plan, error) {
	if o.from != "" {
		return readDocument("the plan", o.from, upgrade.ParsePlan)
	}
	facts, err := o.facts(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.checkNames(facts); err != nil {
		return nil, err
	}
	all := len(facts.Nodes)
	if facts.BesideMultus {
		all = len(namespacesWithNetworks(facts))
	}
	if o.MaxUnavailable, err = atOnce(o.maxUnavailable, all); err != nil {
		return nil, err
	}
	return upgrade.NewPlan(facts, o.Options), nil
}

// atOnce parses a number or a percentage of nodes or namespaces. It rounds down, but not to zero.
func atOnce(text string, all int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1:
		return 0, fmt.Errorf("reading --max-unavailable %q: it must be a positive number or percentage", text)
	case percent:
		return max(n*all/100, 1), nil
	}
	return n, nil
}

// namespacesWithNetworks returns the namespaces of pods with networks.
func namespacesWithNetworks(f upgrade.Facts) []string {
	var out []string
	for _, p := range f.Pods {
		out = append(out, p.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkNames rejects names of nodes or namespaces that do not exist, so that a typo cannot leave out
// another one.
func (o *planOptions) checkNames(f upgrade.Facts) error {
	known := func(name string) bool {
		return slices.ContainsFunc(f.Nodes, func(n upgrade.Node) bool { return n.Name == name })
	}
	kind := "node"
	if f.BesideMultus {
		known, kind = func(name string) bool { return slices.Contains(namespacesWithNetworks(f), name) }, "namespace with networks"
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--first", o.First}, {"--exclude", o.Exclude}} {
		for _, name := range list.names {
			if !known(name) {
				return fmt.Errorf("reading %s: the cluster has no %s %q", list.flag, kind, name)
			}
		}
	}
	return nil
}

// facts reads the cluster as doctor and scan do, for their blockers, and reads the objects
// that only a plan needs.
func (o *planOptions) facts(ctx context.Context) (upgrade.Facts, error) {
	readiness := doctorOptions{app: o.app, quiet: o.quiet, beside: o.beside}
	caps, err := readiness.capabilities(ctx)
	if err != nil {
		return upgrade.Facts{}, err
	}
	multus, err := o.multusOf(caps)
	if err != nil {
		return upgrade.Facts{}, err
	}
	cluster, err := o.connect()
	if err != nil {
		return upgrade.Facts{}, err
	}
	progress := newProgress(o.ErrOut, o.quiet)
	defer progress.stop()
	objects, err := upgrade.Cluster{Kube: cluster.Kube, BesideMultus: o.beside, Progress: func(what string) { progress.say("Reading %s", what) }}.Objects(ctx)
	if err != nil {
		return upgrade.Facts{}, err
	}
	facts := objects.Facts(o.DomainLabel, multus)
	facts.Source = caps.Source
	for _, check := range doctor.NewReport(caps).Checks {
		if check.Severity == translate.Blocker {
			facts.Doctor = append(facts.Doctor, strings.TrimSpace(check.Title+" "+check.Object.String())+": "+check.Message)
		}
		if check.Code == doctor.ProgramsThatRead && check.Severity == translate.Warning {
			facts.Blind = append(facts.Blind, check)
		}
	}
	scanned, err := o.scanned(ctx, facts.BesideMultus)
	if err != nil {
		return facts, err
	}
	facts.AddVerdicts(scanned)
	return facts, nil
}

// scanned returns the verdicts of a scan of the whole cluster.
func (o *planOptions) scanned(ctx context.Context, beside bool) ([]translate.Verdict, error) {
	in := &input{app: o.app, allNamespaces: true, podInfo: true, machines: true, quiet: o.quiet, beside: beside}
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

// multusOf returns the DaemonSets of --multus, or those that were recognized.
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
