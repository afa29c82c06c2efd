package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestDryRunSaysSo checks that each line of progress of a dry run says that it is one, on standard error.
func TestDryRunSaysSo(t *testing.T) {
	for flag, want := range map[string]string{"--dry-run=none": "", "--dry-run": " (dry run)", "--dry-run=client": " (dry run)", "--dry-run=server": " (server dry run)"} {
		streams, _, out, errs := genericiooptions.NewTestIOStreams()
		o := &runFlags{app: &app{IOStreams: streams}}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.dryRun.addFlag(flags, "", dryClient, dryServer)
		if err := flags.Parse([]string{flag}); err != nil {
			t.Fatal(err)
		}
		o.say("")("node %s: %s", "a", "cordon")
		if got := strings.TrimSuffix(errs.String(), "\n"); got != "node a: cordon"+want || out.Len() > 0 {
			t.Errorf("%s: printed %q, and %q on standard output", flag, got, out)
		}
	}
}
