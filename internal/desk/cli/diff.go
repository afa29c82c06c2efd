package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	kdiff "k8s.io/kubectl/pkg/cmd/diff"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/exec"

	"github.com/nadra-dev/nadra/internal/desk/source"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// The exit codes of diff are kubectl's.
const (
	diffFound   = 1
	diffTrouble = 2
)

const diffHelp = `Show what convert would change, in the form of kubectl diff.

With --against input, the manifests are compared before and after the conversion.
With --against live, the output of convert is compared with the live cluster, by a
dry run of the API server.

KUBECTL_EXTERNAL_DIFF replaces the program diff.

Exit codes, as with kubectl diff:
  0   no differences
  1   differences
  >1  an error`

type diffOptions struct {
	convertOptions
	against string
}

func (a *app) diff() *cobra.Command {
	o := &diffOptions{}
	command := &cobra.Command{
		Use:     "diff [TYPE/NAME ...]",
		Short:   "Show what convert would change",
		Long:    diffHelp,
		Example: "  kubectl nadra diff -R -f deploy/\n  kubectl nadra diff -k overlays/prod --against live",
		RunE: func(command *cobra.Command, args []string) error {
			o.args = args
			return o.run(command)
		},
	}
	o.input = a.input(command)
	o.addConversionFlags(command)
	command.Flags().StringVar(&o.against, "against", "input", "base of the comparison: input, or live for the live cluster")
	cmdutil.AddServerSideApplyFlags(command)
	cmdutil.AddFieldManagerFlagVar(command, new(string), "kubectl-client-side-apply")
	command.Flags().Bool("prune", false, "")
	_ = command.Flags().MarkHidden("prune")
	return command
}

func (o *diffOptions) run(command *cobra.Command) error {
	if o.against != "input" && o.against != "live" {
		return fmt.Errorf("reading --against %q: use input or live", o.against)
	}
	set, result, err := o.converted(command.Context())
	if err != nil {
		return err
	}
	printFindings(o.app.ErrOut, result.Findings, true)
	folder, err := os.MkdirTemp("", "nadra-diff-")
	if err != nil {
		return fmt.Errorf("comparing: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if o.against == "live" && !set.Live {
		return o.live(command, folder, set, result)
	}
	before, after, err := writeBoth(folder, set, result)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- (&kdiff.DiffProgram{Exec: exec.New(), IOStreams: o.app.IOStreams}).Run(before, after) }()
	select { // the program of KUBECTL_EXTERNAL_DIFF may wait for its user, and folder is to be removed
	case err := <-done:
		return diffCode(err)
	case <-command.Context().Done():
		return fmt.Errorf("comparing: %w", command.Context().Err())
	}
}

// writeBoth writes the changed files before and after the conversion, and created objects.
func writeBoth(folder string, set *source.Set, result translate.Result) (before, after string, err error) {
	before, after = filepath.Join(folder, "INPUT"), filepath.Join(folder, "CONVERTED")
	if err := errors.Join(os.Mkdir(before, 0o700), os.Mkdir(after, 0o700)); err != nil {
		return "", "", fmt.Errorf("comparing: %w", err)
	}
	files := newStaging(folder)
	for i, f := range result.Files {
		if from := set.Files[i]; !bytes.Equal(f.Data, from.Data) {
			// diff does not compare subdirectories.
			name := strings.ReplaceAll(from.Rel, "/", "_")
			if _, taken := files.files[filepath.Join(after, name)]; taken {
				name = fmt.Sprintf("%d_%s", i, name)
			}
			files.files[filepath.Join(before, name)], files.files[filepath.Join(after, name)] = from.Data, f.Data
		}
	}
	if created := translate.Texts(result.Created); len(created) > 0 {
		files.files[filepath.Join(after, createdFile)] = joined(created)
	}
	return before, after, files.write()
}

// live compares the output of convert with the cluster, as `kubectl diff -f -` does.
func (o *diffOptions) live(command *cobra.Command, folder string, set *source.Set, result translate.Result) error {
	all := joined(stream(set, result))
	if len(all) == 0 {
		return nil
	}
	name := filepath.Join(folder, "converted.yaml")
	if err := os.WriteFile(name, all, 0o600); err != nil {
		return fmt.Errorf("comparing with the cluster: %w", err)
	}
	k := kdiff.NewDiffOptions(o.app.IOStreams)
	k.Concurrency = 1
	k.FilenameOptions.Filenames = []string{name}
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(o.app.cluster))
	if err := k.Complete(factory, command, nil); err != nil {
		return fmt.Errorf("comparing with the cluster: %w", err)
	}
	return diffCode(k.Run())
}

// diffCode converts an error of kubectl to one with diff's exit code.
func diffCode(err error) error {
	var exit exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitStatus() == diffFound:
		return exitError(diffFound)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("comparing: %w", err)
}
