package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const scanHelp = `Report which workloads use which networks, and whether nadra can serve each of
them. It only reads. The verdicts:

  ready               converted as it is
  ready with notes    converted, with something to decide or to lose
  stays               left on Multus; a finding says why
  not judged          must be rendered first (charts, templates, HelmReleases …)
  nothing to convert  no network is attached by it

Where Multus stays on nadra's nodes (--beside-multus, or what nadra's own flags in the
live cluster say), workloads are judged as nadra's webhook judges them there, and
programs that will not see their networks are named.

With --caps, a file of kubectl nadra doctor --probe --output-file, it also reports which
nodes lack a plugin or the master of a network. This needs no cluster.

The baseline is the JSON of an earlier scan: its findings are not reported again
and do not count for --fail-on.`

const scanExamples = `  # the live cluster
  kubectl nadra scan -A
  # manifests in Git, checked against the networks of the live cluster
  kubectl nadra scan -R -f deploy/ --with-cluster
  # the manifests of a chart or a kustomization
  helm template upf ./chart | kubectl nadra scan -f - -n core5g
  kubectl nadra scan -k overlays/prod
  # a page for decision makers
  kubectl nadra scan -A -o html > report.html
  # with the nodes' plugins and interfaces, and without the cluster
  kubectl nadra doctor --probe --output-file caps.yaml
  kubectl nadra scan -R -f deploy/ --caps caps.yaml
  # in CI: fail on new findings
  kubectl nadra scan -R -f deploy/ -o sarif --baseline known.json --fail-on warning`

type scanOptions struct {
	*input
	format   formatFlag
	failOn   failOn
	baseline string
	caps     string
}

func (a *app) scan() *cobra.Command {
	o := &scanOptions{}
	command := naming("scan [TYPE/NAME ...]", "Report which workloads can move to nadra", scanHelp, scanExamples, o.run)
	o.input = a.input(command)
	o.format.addFlag(command, report.Scan.Names())
	command.Flags().StringVar(&o.baseline, "baseline", "", "file with the JSON of an earlier scan, whose findings are left out")
	command.Flags().StringVar(&o.caps, "caps", "", "file of doctor --probe --output-file, to check networks against the nodes' plugins and interfaces")
	o.failOn.addFlag(command.Flags())
	return command
}

func (o *scanOptions) run(ctx context.Context, names []string) error {
	o.args = names
	baseline, err := readDocument("the baseline", o.baseline, report.ReadBaseline)
	if err != nil {
		return err
	}
	saved, err := readDocument("capabilities", o.caps, doctor.ParseCapabilities)
	if err != nil {
		return err
	}
	nodes, err := nodeFacts(o.caps, saved)
	if err != nil {
		return err
	}
	if saved != nil && saved.Beside() && !o.changed("beside-multus") {
		o.beside = true
	}
	set, err := o.read(ctx)
	if err != nil {
		return err
	}
	set.Options.Nodes = nodes
	if saved != nil && set.Options.BesideMultus && len(set.Options.Readers) == 0 {
		set.Options.Readers = saved.Readers
	}
	result := o.convert(set)
	r := report.Build(report.Input{Source: set.Description, Files: set.fileCount(), Result: result, Baseline: baseline})
	if err := report.Scan.Write(o.app.Out, o.format.value, r); err != nil {
		return err
	}
	return o.failOn.verdict(r.Summary.Findings)
}

// nodeFacts returns the facts about the probed nodes in the capabilities of a file, or nil without
// capabilities.
func nodeFacts(path string, c *doctor.Capabilities) ([]translate.NodeFacts, error) {
	if c == nil {
		return nil, nil
	}
	var out []translate.NodeFacts
	for _, n := range c.Nodes {
		if n.Probe == nil {
			continue
		}
		facts := translate.NodeFacts{Name: n.Name}
		for _, dir := range n.Probe.BinDirs {
			facts.Plugins = append(facts.Plugins, dir.Plugins...)
		}
		for _, i := range n.Probe.Interfaces {
			facts.Interfaces = append(append(facts.Interfaces, i.Name), i.AltNames...)
		}
		out = append(out, facts)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading capabilities of %s: no node was probed: save them with doctor --probe", path)
	}
	return out, nil
}

// convert converts the input.
func (in *input) convert(set *manifestSet) translate.Result {
	progress := newProgress(in.app.ErrOut, in.quiet)
	defer progress.stop()
	progress.say("Judging %d files", len(set.Files))
	result := translate.Convert(translate.Input{Files: set.manifests(), Context: set.Context, Beside: set.Beside, Options: set.Options})
	for _, of := range result.UnusedClasses {
		in.app.note("--device-class: no pod in the input has network or pool %q, so class %s is not used: write NAMESPACE/NETWORK, or the pool as in the NAD's annotation", of, set.Options.DeviceClasses[of])
	}
	if !set.Live {
		return result
	}
	// Objects of a live cluster have no lines.
	for i := range result.Findings {
		result.Findings[i].Position = result.Findings[i].Position.WithoutLine()
	}
	for i := range result.Workloads {
		result.Workloads[i].Position = result.Workloads[i].Position.WithoutLine()
	}
	for i := range result.Networks {
		result.Networks[i].Position = result.Networks[i].Position.WithoutLine()
	}
	return result
}
