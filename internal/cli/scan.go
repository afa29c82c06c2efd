package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/report"
	"github.com/nadra-dev/nadra/internal/source"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const scanHelp = `Say which workloads use which networks, and what becomes of each with nadra:
ready, ready with notes, or stays on Multus. Reads only.

With --caps, the file that kubectl nadra doctor --probe --save has written, it is
also said which nodes lack a plugin or the master of a network. This needs no
cluster.

The baseline is the JSON of an earlier scan: what it has is not reported again,
and does not count for --fail-on.`

const scanExamples = `  # the whole live cluster
  kubectl nadra scan -A
  # manifests in Git, judged by the networks of the live cluster
  kubectl nadra scan -R -f deploy/ --with-cluster
  # what a chart or a kustomization would install
  helm template upf ./chart | kubectl nadra scan -f - -n core5g
  kubectl nadra scan -k overlays/prod
  # a page for those who decide
  kubectl nadra scan -A -o html > report.html
  # with what the nodes have, and without the cluster
  kubectl nadra doctor --probe --save caps.yaml
  kubectl nadra scan -R -f deploy/ --caps caps.yaml
  # in CI: fail on what is new
  kubectl nadra scan -R -f deploy/ -o sarif --baseline known.json --fail-on warning`

type scanOptions struct {
	*input
	format   string
	failOn   failOn
	baseline string
	caps     string
}

func (a *app) scan() *cobra.Command {
	o := &scanOptions{}
	command := &cobra.Command{
		Use:     "scan [TYPE/NAME ...]",
		Short:   "Say what would become of each workload, without changing anything",
		Long:    scanHelp,
		Example: scanExamples,
		RunE: func(command *cobra.Command, args []string) error {
			o.args = args
			return o.run(command.Context())
		},
	}
	o.input = a.input(command)
	command.Flags().StringVarP(&o.format, "output", "o", "table", "form of the report: "+strings.Join(report.Formats(), ", "))
	command.Flags().StringVar(&o.baseline, "baseline", "", "file with the JSON of an earlier scan, whose findings are left out")
	command.Flags().StringVar(&o.caps, "caps", "", "file that doctor --probe --save has written, to judge networks by what the nodes have")
	o.failOn.addFlag(command.Flags())
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.Formats(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o *scanOptions) run(ctx context.Context) error {
	if !slices.Contains(report.Formats(), o.format) {
		return fmt.Errorf("reading --output %q: use one of %s", o.format, strings.Join(report.Formats(), ", "))
	}
	baseline, err := o.readBaseline()
	if err != nil {
		return err
	}
	nodes, err := nodeFacts(o.caps)
	if err != nil {
		return err
	}
	set, err := o.read(ctx)
	if err != nil {
		return err
	}
	set.Options.Nodes = nodes
	result := o.convert(set)
	r := report.Build(report.Input{Source: set.Description, Files: len(set.Files), Result: result, Baseline: baseline})
	if err := report.Write(o.app.Out, o.format, r); err != nil {
		return err
	}
	return o.failOn.verdict(r.Summary.Findings.Warning, r.Summary.Findings.Blocker)
}

func (o *scanOptions) readBaseline() (*report.Report, error) {
	if o.baseline == "" {
		return nil, nil
	}
	data, err := os.ReadFile(o.baseline)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	baseline, err := report.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline %s: %w", o.baseline, err)
	}
	return baseline, nil
}

// convert converts what was read.
func (in *input) convert(set *source.Set) translate.Result {
	progress := newProgress(in.app.ErrOut, in.quiet)
	defer progress.stop()
	progress.say("Converting %d files", len(set.Files))
	result := translate.Convert(translate.Input{Files: set.Manifests(), Context: set.Context, Options: set.Options})
	if !set.Live {
		return result
	}
	// Nobody has the text that the lines would be of.
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
