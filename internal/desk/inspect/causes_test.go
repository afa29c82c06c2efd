package inspect

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// TestEveryCodeIsExplained checks that the code in a message decides, at each stage, whose
// words it may be in.
func TestEveryCodeIsExplained(t *testing.T) {
	rest := advice{"nobody", "nothing"}
	stages := map[reason.Stage]int{}
	for _, e := range reason.All() {
		stages[e.Stage]++
		message := "rpc error: networks[0]: " + e.Code.Text("a sentence")
		got := explain(message, append(ofKubelet, ofPlugins...), rest)
		if got.Reason != e.Code || got.Owner != e.Owner || got.Detail != message {
			t.Errorf("%s: %+v", e.Code, got)
		}
		if want := passing(e); want != (got.State == StepWaiting) {
			t.Errorf("%s: state %s", e.Code, got.State)
		}
		if got.Remedy == "" || !strings.HasPrefix(got.Remedy, e.Remedy) {
			t.Errorf("%s: remedy %q", e.Code, got.Remedy)
		}
	}
	for _, stage := range []reason.Stage{reason.Publish, reason.Pools, reason.Admit, reason.Prepare, reason.Attach, reason.Gate, reason.Detach} {
		if stages[stage] == 0 {
			t.Errorf("no code of stage %s", stage)
		}
	}
	if got := explain("no code", nil, rest); got.Owner != rest.owner || got.Remedy != rest.remedy || got.Reason != "" || got.State != StepFailed {
		t.Errorf("without a code: %+v", got)
	}
}

// TestIsAboutClaims checks that the scheduler's messages about volumes are not taken for those about claims.
func TestIsAboutClaims(t *testing.T) {
	for message, want := range map[string]bool{
		"0/1 nodes are available: 1 cannot allocate all claims.":                     true,
		"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.": false,
		"persistentvolumeclaim \"data\" not found":                                   false,
	} {
		if got := isAboutClaims(message); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
}

// TestForeignTexts checks that the words of others decide only in messages without a code
// and in those that quote a plugin.
func TestForeignTexts(t *testing.T) {
	rest := advice{"nobody", "nothing"}
	for _, texts := range [][]foreignText{ofKubelet, ofPlugins} {
		for _, f := range texts {
			for message, want := range map[string]reason.Owner{
				"failed: " + f.text + ": x":                              f.owner,
				reason.PluginFailed.Text("adding: " + f.text):            f.owner,
				reason.AttachTimeout.Text("no success: " + f.text):       f.owner,
				reason.MasterMissing.Text("plugin macvlan: " + f.text):   reason.OfNode,
				reason.StateNotWritten.Text("the records: " + f.text):    reason.OfNode,
				reason.InterfaceConflict.Text("two networks: " + f.text): reason.OfManifest,
			} {
				if got := explain(message, texts, rest); got.Owner != want || got.State != StepFailed {
					t.Errorf("%s: %+v", message, got)
				}
			}
			if f.source == "" {
				t.Errorf("%q has no source", f.text)
			}
		}
	}
}
