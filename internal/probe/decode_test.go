package probe

import (
	"strings"
	"testing"
)

func TestDecodeLast(t *testing.T) {
	const removed = `{"records":[],"removed":true}`
	for name, tt := range map[string]struct {
		output  string
		wantErr string
	}{
		"one line":               {output: removed + "\n"},
		"standard error before":  {output: "W1130 a warning\n{not JSON\n" + removed + "\n"},
		"standard error after":   {output: removed + "\nW1130 a warning\n" + `{"level":"info"}` + "\n"},
		"the last of two":        {output: `{"records":[]}` + "\n" + removed},
		"an error alone":         {output: "reading the host: denied\n", wantErr: "reading the host: denied"},
		"an object of another":   {output: `{"level":"fatal"}`, wantErr: `{"level":"fatal"}`},
		"a report that is cut":   {output: `{"records":[],"removed":tr`, wantErr: "invalid character ' ' in literal true (expecting 'u')"},
		"nothing":                {output: "\n", wantErr: "the pod has ended without a report: look at the node, which may have restarted"},
		"an error without limit": {output: strings.Repeat("x", 1<<20) + "y", wantErr: strings.Repeat("x", maxText-1) + "y"},
	} {
		t.Run(name, func(t *testing.T) {
			var report Remains
			err := DecodeLast([]byte(tt.output), "records", &report)
			switch {
			case tt.wantErr == "" && (err != nil || !report.Removed):
				t.Errorf("removed %t, error %v", report.Removed, err)
			case tt.wantErr != "" && (err == nil || err.Error() != tt.wantErr):
				t.Errorf("error %.80q, want %.80q", err, tt.wantErr)
			}
		})
	}
}
