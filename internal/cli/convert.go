package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/source"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const convertHelp = `Convert workloads that ask for networks by annotation into ones that ask by
claim. Manifests keep their form: only what must change is edited, and what is
created goes to a file of its own.

Without --in-place and --output-dir the manifests are written to standard
output, what is created first. Of a live cluster only what changes is written.

With -k and --output-dir, an overlay of the kustomization is written: patches,
and what is created.`

const convertExamples = `  # look, then apply
  kubectl nadra convert -f deploy.yaml -f networks.yaml | kubectl apply --dry-run=server -f -
  # edit the manifests in Git, and review
  kubectl nadra convert -R -f deploy/ --in-place && git diff
  # an overlay beside a kustomization
  kubectl nadra convert -k base --output-dir overlays/nadra
  # all or nothing: write only if there is nothing to look at
  kubectl nadra convert -R -f deploy/ --in-place --strict`

type convertOptions struct {
	*input
	failOn    failOn
	strict    bool
	inPlace   bool
	outputDir string
	format    string
	drop      bool
	networks  bool
}

func (a *app) convert() *cobra.Command {
	o := &convertOptions{}
	command := &cobra.Command{
		Use:     "convert [TYPE/NAME ...]",
		Short:   "Convert annotations of workloads into claims",
		Long:    convertHelp,
		Example: convertExamples,
		RunE: func(command *cobra.Command, args []string) error {
			o.args = args
			return o.run(command.Context())
		},
	}
	o.input = a.input(command)
	flags := command.Flags()
	flags.BoolVar(&o.inPlace, "in-place", false, "edit the files; what is created goes to "+createdFile+" in their folder")
	flags.StringVar(&o.outputDir, "output-dir", "", "folder to write the converted files to")
	flags.StringVarP(&o.format, "output", "o", "yaml", "form on standard output: yaml, or json for one list")
	flags.BoolVar(&o.strict, "strict", false, "write nothing if there are warnings or blockers")
	o.addConversionFlags(command)
	o.failOn.addFlag(flags)
	command.MarkFlagsMutuallyExclusive("in-place", "output-dir")
	return command
}

// addConversionFlags adds those that change what the conversion says.
func (o *convertOptions) addConversionFlags(command *cobra.Command) {
	command.Flags().BoolVar(&o.drop, "drop-annotation", false, "remove the annotation from what was converted; Multus can then not serve it any more")
	command.Flags().BoolVar(&o.networks, "render-networks", false, "create the networks, too, that network operators would make of objects in the input")
}

func (o *convertOptions) run(ctx context.Context) error {
	if o.format != "yaml" && o.format != "json" {
		return fmt.Errorf("reading --output %q: use yaml or json", o.format)
	}
	set, result, err := o.converted(ctx)
	if err != nil {
		return err
	}
	if err := o.writable(set); err != nil {
		return err
	}
	tell(o.app.ErrOut, result.Findings, o.quiet)
	warnings, blockers := count(result.Findings, translate.Warning), count(result.Findings, translate.Blocker)
	if o.strict {
		if err := failWarning.verdict(warnings, blockers); err != nil {
			_, _ = fmt.Fprintln(o.app.ErrOut, "Nothing was written, as --strict asks for.")
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
		_, _ = fmt.Fprintln(o.app.ErrOut, summary(result))
	}
	return o.failOn.verdict(warnings, blockers)
}

// converted reads and converts.
func (o *convertOptions) converted(ctx context.Context) (*source.Set, translate.Result, error) {
	set, err := o.read(ctx)
	if err != nil {
		return nil, translate.Result{}, err
	}
	if o.inPlace {
		if err := addNeighbours(set); err != nil {
			return nil, translate.Result{}, err
		}
	}
	set.Options.DropAnnotation = o.drop
	set.Options.RenderNetworks = o.networks
	return set, o.convert(set), nil
}

// writable refuses what could not be written, before anything is said.
func (o *convertOptions) writable(set *source.Set) error {
	if !o.inPlace {
		return nil
	}
	if o.files.Kustomize != "" {
		return errors.New("editing in place: what kustomize builds is in no file: use --output-dir for an overlay")
	}
	i := slices.IndexFunc(set.Files, func(f source.File) bool { return !f.OnDisk })
	if i >= 0 {
		return fmt.Errorf("editing in place: %s is no file: use standard output or --output-dir", set.Files[i].Name)
	}
	return nil
}

func (o *convertOptions) write(set *source.Set, result translate.Result) error {
	switch {
	case o.inPlace:
		return writeInPlace(set, result)
	case o.outputDir != "" && o.files.Kustomize != "":
		return writeOverlay(o.outputDir, o.files.Kustomize, result)
	case o.outputDir != "":
		return writeFolder(o.outputDir, set, result)
	case o.format == "json":
		return writeList(o.app.Out, set, result)
	}
	return writeStream(o.app.Out, set, result)
}

// summary says what was done, also when that is nothing.
func summary(result translate.Result) string {
	changed, stays := 0, 0
	for _, w := range result.Workloads {
		if w.Changed {
			changed++
		}
		if w.Readiness == translate.Stays {
			stays++
		}
	}
	objects := 0
	for _, n := range result.Looked {
		objects += n
	}
	return fmt.Sprintf("Converted %d of %s with additional networks; %d stay as they are because of blockers. Created %s. Looked at %s in %s.",
		changed, many(len(result.Workloads), "workload"), stays, many(len(result.Created), "object"), many(objects, "object"), many(len(result.Files), "file"))
}

func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
