package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// TestRefusal checks that uninstall prints the code and the remedy of each user, and refuses.
func TestRefusal(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want []string // on standard error
		code exitError
	}{
		"in use": {
			&cleanup.InUseError{Users: []translate.Finding{translate.NewFinding(cleanup.Rules(), "NADRA-502", translate.ObjectRef{Kind: "ResourceClaim", Namespace: "core", Name: "net"}, "it has a device")}},
			[]string{"blocker NADRA-502: ResourceClaim core/net: it has a device\n  Delete the claim", "refused: nadra is in use"},
			CodeRefused,
		},
		"by Helm":       {reason.Errorf(reason.InstalledByHelm, "run helm uninstall"), []string{"refused: [InstalledByHelm] run helm uninstall"}, CodeRefused},
		"another error": {errors.New("no"), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := &uninstallOptions{runFlags: runFlags{app: &app{IOStreams: genericiooptions.IOStreams{ErrOut: &out}}}}
			err := o.refusal(test.err)
			var exit exitError
			if errors.As(err, &exit); exit != test.code || test.code == 0 && !errors.Is(err, test.err) {
				t.Errorf("the error is %v", err)
			}
			for _, text := range test.want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("it lacks %q:\n%s", text, out.String())
				}
			}
		})
	}
}

// TestCleanupVerdict checks that what was not read is as much a warning as what is left over.
func TestCleanupVerdict(t *testing.T) {
	unread := translate.NewFinding(cleanup.Rules(), "NADRA-511", translate.ObjectRef{Kind: "Node", Name: "node-1"}, "reading /l: permission denied")
	for name, test := range map[string]struct {
		r    cleanup.Report
		code exitError
	}{
		"nothing is left":       {cleanup.Report{}, 0},
		"a part was not read":   {cleanup.Report{Findings: []translate.Finding{unread}}, CodeWarnings},
		"a node was not judged": {cleanup.Report{Refused: []cleanup.NodeProblem{{Node: "node-1"}}}, CodeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			o := &cleanupOptions{app: &app{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errs}}}
			o.format.value, o.failOn.value = "table", failWarning
			var exit exitError
			if err := o.report(test.r); !errors.As(err, &exit) && err != nil || exit != test.code {
				t.Errorf("the error is %v, want exit code %d", err, test.code)
			}
			if found := len(test.r.Findings) > 0; found != strings.Contains(out.String(), "node/node-1  NADRA-511  warning   reading /l: permission denied") {
				t.Errorf("it prints\n%s", out.String())
			}
		})
	}
}
