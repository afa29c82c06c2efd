package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
)

// podOf returns the pod that the arguments name in kubectl's form: pod/NAME or pod NAME.
// The other arguments of explain are codes.
func podOf(args []string) (name string, found bool) {
	if len(args) == 0 {
		return "", false
	}
	kind, name, slash := strings.Cut(args[0], "/")
	if !slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind)) {
		return "", false
	}
	if !slash && len(args) == 2 {
		name = args[1]
	}
	return name, true
}

// explainPod shows where the chain from a pod's request to its interfaces breaks. Its exit
// code is CodeBlockers if it does.
func (a *app) explainPod(ctx context.Context, args []string, flags *printFlags) error {
	name, found := podOf(args)
	if !found || name == "" || strings.Contains(args[0], "/") && len(args) > 1 {
		return fmt.Errorf("reading %q: write pod/NAME", strings.Join(args, " "))
	}
	printer, err := flags.toPrinter(false)
	if err != nil {
		return err
	}
	cluster, err := a.cluster.live()
	if err != nil {
		return err
	}
	in, err := cluster.Pod(ctx, name)
	if err != nil {
		return err
	}
	c := inspect.Explain(in)
	if printer == nil {
		err = c.Text(a.Out)
	} else {
		err = printObject(a.Out, printer, c, c.Namespace, c.Pod)
	}
	if err == nil && c.Verdict == inspect.ChainFailed {
		err = exitError(CodeBlockers)
	}
	return err
}
