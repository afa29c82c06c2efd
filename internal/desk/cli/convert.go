package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const convertHelp = `Convert workloads that request networks by annotation to claims. Manifests keep
their form: only the necessary parts are edited, and created objects go to a file
of their own.

Without --in-place and --output-dir the manifests are written to standard output,
created objects first. For a live cluster, only changed objects are written.

With --diff nothing is written: the manifests are compared before and after the
conversion. KUBECTL_EXTERNAL_DIFF replaces the program diff. The exit codes are then
those of kubectl diff: 0 no differences, 1 differences, more for errors.

With --beside-multus, or where nadra runs so in the live cluster, converted workloads
name their networks in the annotation nadra.dev/networks: Multus, which stays on the
nodes, would attach those of its own annotation a second time.

With -k and --output-dir, an overlay of the kustomization is written: patches and
created objects.`

const convertExamples = `  # show what would change
  kubectl nadra convert -R -f deploy/ --diff
  # compare the result with the live cluster
  kubectl nadra convert -f deploy.yaml -f networks.yaml | kubectl diff --server-side --force-conflicts -f -
  # check the result, then apply it
  kubectl nadra convert -f deploy.yaml -f networks.yaml | kubectl apply --dry-run=server -f -
  # edit the manifests in Git, and review
  kubectl nadra convert -R -f deploy/ --in-place && git diff
  # an overlay beside a kustomization
  kubectl nadra convert -k base --output-dir overlays/nadra
  # write only if there are no warnings and blockers
  kubectl nadra convert -R -f deploy/ --in-place --strict
  # what a chart renders; workloads with a blocker stay as they are
  helm template upf ./chart -n core5g | kubectl nadra convert -f - -n core5g --fail-on=never`

type convertOptions struct {
	*input
	failOn    failOn
	strict    bool
	inPlace   bool
	outputDir string
	format    formatFlag
	drop      bool
	classes   bool
	diff      bool
}

func (a *app) convert() *cobra.Command {
	o := &convertOptions{}
	command := naming("convert [TYPE/NAME ...]", "Convert network annotations of workloads to claims", convertHelp, convertExamples, o.run)
	o.input = a.input(command)
	flags := command.Flags()
	flags.BoolVar(&o.inPlace, "in-place", false, "edit the files; created objects go to "+createdFile+" in their directory")
	flags.StringVar(&o.outputDir, "output-dir", "", "directory to write the converted files to")
	o.format.addFlag(command, []string{"yaml", "json"})
	flags.BoolVar(&o.strict, "strict", false, "write nothing if there are warnings or blockers")
	flags.BoolVar(&o.drop, "drop-annotation", false, "remove the annotation from converted workloads, which Multus can then no longer serve")
	flags.BoolVar(&o.classes, "classes", true, "create the DeviceClasses of networks; false where nadra's controller runs, which creates them")
	flags.BoolVar(&o.diff, "diff", false, "write nothing, and show what would change")
	o.failOn.addFlag(flags)
	command.MarkFlagsMutuallyExclusive("in-place", "output-dir", "diff")
	for _, other := range []string{"diff", "in-place", "output-dir"} {
		command.MarkFlagsMutuallyExclusive(other, "output")
	}
	command.MarkFlagsMutuallyExclusive("diff", "strict")
	return command
}

func (o *convertOptions) run(ctx context.Context, names []string) error {
	o.args = names
	set, result, err := o.converted(ctx)
	if err != nil {
		return err
	}
	if o.diff {
		return o.showDiff(ctx, set, result)
	}
	if err := o.writable(set); err != nil {
		return err
	}
	o.app.printFindings(result.Findings, o.quiet)
	n := translate.Count(result.Findings)
	if o.strict {
		if err := verdict(failWarning, n); err != nil {
			o.app.note("Nothing was written because of --strict.")
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing nothing: %w", err)
	}
	if err := o.write(set, result); err != nil {
		return err
	}
	if !o.quiet {
		o.app.note("%v", summary(result))
	}
	return o.failOn.verdict(n)
}

// converted reads the input and converts it.
func (o *convertOptions) converted(ctx context.Context) (*manifestSet, translate.Result, error) {
	set, err := o.read(ctx)
	if err != nil {
		return nil, translate.Result{}, err
	}
	set.Options.DropAnnotation = o.drop
	set.Options.NoClasses = !o.classes
	return set, o.convert(set), nil
}

// writable rejects input that --in-place cannot write.
func (o *convertOptions) writable(set *manifestSet) error {
	if !o.inPlace {
		return nil
	}
	if o.files.Kustomize != "" {
		return errors.New("editing in place: the output of kustomize is not in a file: use --output-dir for an overlay")
	}
	i := slices.IndexFunc(set.Files, func(f manifest) bool { return !f.OnDisk })
	if i >= 0 {
		return fmt.Errorf("editing in place: %s is not a file: use standard output or --output-dir", set.Files[i].Name)
	}
	return nil
}

// write writes the result to where the flags say.
func (o *convertOptions) write(set *manifestSet, result translate.Result) error {
	switch {
	case o.inPlace:
		files, err := inPlace(set, result, func(text string) { o.app.note("Warning: %s", report.Visible(text)) })
		if err != nil {
			return err
		}
		return files.write()
	case o.outputDir != "" && o.files.Kustomize != "":
		return writeOverlay(o.outputDir, o.files.Kustomize, result)
	case o.outputDir != "":
		return writeFolder(o.outputDir, set, result)
	case o.format.value == "json":
		return writeList(o.app.Out, set, result)
	}
	return writeStream(o.app.Out, set, result)
}

// summary returns the counts of workloads, which add up, and of objects.
func summary(result translate.Result) string {
	converted, notNeeded, blocked, unjudged := 0, 0, 0, 0
	for _, w := range result.Workloads {
		switch {
		case w.Changed:
			converted++
		case w.Readiness == translate.Stays:
			blocked++
		case w.Readiness == translate.NotJudged:
			unjudged++
		default:
			notNeeded++
		}
	}
	objects := 0
	for _, n := range result.Kinds {
		objects += n
	}
	return fmt.Sprintf("Converted %d, not needed %d, blocked %d, not judged %d. Created %s. Read %s in %s.",
		converted, notNeeded, blocked, unjudged, words.Count(len(result.Created), "object"), words.Count(objects, "object"), words.Count(len(result.Files), "file"))
}
