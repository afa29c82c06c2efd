package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/inspect"
)

// explainFormats are those of explain pod/NAME.
var explainFormats = []string{"text", "json", "yaml"}

// podOf returns the pod that the arguments name as kubectl takes them: pod/NAME
// or pod NAME. explain's other arguments are codes.
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

// explainPod says where the chain from a pod's wish to its interfaces breaks.
// It ends with CodeBlockers when it does.
func (a *app) explainPod(ctx context.Context, args []string, format string) error {
	name, found := podOf(args)
	if !found || name == "" || strings.Contains(args[0], "/") && len(args) > 1 {
		return fmt.Errorf("reading %q: write pod/NAME", strings.Join(args, " "))
	}
	if !slices.Contains(explainFormats, format) {
		return fmt.Errorf("reading --output %q: use text, json or yaml", format)
	}
	cluster, err := a.liveCluster()
	if err != nil {
		return err
	}
	in, err := cluster.Pod(ctx, name)
	if err != nil {
		return err
	}
	c := inspect.Explain(in)
	if format == "text" {
		err = c.Text(a.Out)
	} else {
		err = inspect.Encode(a.Out, format, c)
	}
	if err == nil && c.Verdict == inspect.ChainFailed {
		err = exitError(CodeBlockers)
	}
	return err
}
