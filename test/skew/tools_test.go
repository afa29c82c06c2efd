//go:build e2e

package skew

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestToolsOfTheOther runs kubectl nadra of each version against the programs of the other.
func TestToolsOfTheOther(t *testing.T) {
	f, c := setup(t)
	for _, pair := range []struct{ tool, programs version }{{before, now}, {now, before}} {
		name := "kubectl-nadra " + pair.tool.tag + " with programs " + pair.programs.tag
		f.Must(pair.programs.install(f.Ctx, f.Cluster))
		pod, err := f.CreatePod(f.Ctx, c.pod(annotated, "tools-"+pair.programs.tag))
		f.Must(err)
		_, err = f.Ready(f.Ctx, namespace, pod.Name, stuck)
		f.Must(err)
		for _, command := range []struct {
			args  []string
			shows []string
		}{
			{[]string{"doctor"}, []string{"nadra-node"}},
			{[]string{"doctor", "--probe"}, []string{f.Cluster.Node(1).Name()}},
			{[]string{"get", "attachments", "-n", namespace}, []string{pod.Name, "net1", "net2", "10.70.0.", "10.71.0."}},
			{[]string{"explain", "pod/" + pod.Name, "-n", namespace}, []string{"blue", "wan"}},
		} {
			// The same command of the programs' own version tells the status of this cluster.
			text, code := c.tool(f, pair.tool, command.args)
			own, ownCode := c.tool(f, pair.programs, command.args)
			if code != ownCode {
				t.Errorf("%s: %v ends with status %d, and that of their own version with %d:\n%s\n%s", name, command.args, code, ownCode, text, own)
			}
			for _, want := range command.shows {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %v lacks %q:\n%s", name, command.args, want, text)
				}
			}
		}
		f.Must(f.DeletePod(f.Ctx, namespace, pod.Name))
	}
}

// tool runs kubectl-nadra of a version and returns what it prints, and its status.
func (c *churn) tool(f *lab.Fixture, v version, args []string) (string, int) {
	f.Helper()
	machine := c.Cluster.ControlPlane()
	command := machine.Command(f.Ctx, filepath.Join(v.bin, "kubectl-nadra"), args...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := machine.Run(command); err != nil && !errors.As(err, new(*exec.ExitError)) {
		f.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}
