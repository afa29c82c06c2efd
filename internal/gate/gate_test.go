package gate

import (
	"os"
	"strings"
	"testing"
)

// here is the place that testdata/checkpoint/v1.json, which pkg/checkpoint's
// tests hold to the format, vouches for in its first record.
var here = Where{SandboxID: "sandbox-1", Cookie: 4711, BootID: "boot-1"}

func golden(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../testdata/checkpoint/v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDecide(t *testing.T) {
	file := golden(t)
	attached := strings.ReplaceAll(file, `"phase": "Attaching"`, `"phase": "Attached"`)
	tests := []struct {
		name    string
		file    string
		here    func(*Where)
		verdict Verdict
		reason  string
	}{
		{"all attached here", attached, nil, Go, ""},
		{"the runtime does not tell the sandbox", attached, func(w *Where) { w.SandboxID = "" }, Go, ""},
		{"the second is being attached", file, nil, Wait, "pod default/web has no net2 on network default/blue yet: its plugins are still running"},
		{"another namespace", attached, func(w *Where) { w.Cookie++ }, Wait, "another network namespace, of sandbox sandbox-1"},
		{"another sandbox", attached, func(w *Where) { w.SandboxID = "sandbox-2" }, Wait, "another sandbox, sandbox-1"},
		{"another life of the node", attached, func(w *Where) { w.BootID = "boot-2" }, Wait, "before the node was rebooted"},
		{"no cookie recorded", strings.ReplaceAll(attached, "4711", "0"), func(w *Where) { w.Cookie = 0 }, Wait, "another network namespace"},
		{"prepared only", strings.ReplaceAll(attached, "Attached", "Prepared"), nil, Wait, "is it running on this node"},
		{"an unknown phase", strings.ReplaceAll(attached, "Attached", "Detaching"), nil, Wait, "has not attached it"},
		{"attached without a sandbox", `{"version":1,"records":[{"phase":"Attached","bootID":"boot-1"}]}`, nil, Wait, "has not attached it"},
		{"a later format", strings.ReplaceAll(attached, `"version": 1`, `"version": 2`), nil, Refuse, "format version 2"},
		{"no records", `{"version":1,"records":[]}`, nil, Refuse, "0 entries"},
		{"cut off", attached[:len(attached)/2], nil, Refuse, "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := here
			if tt.here != nil {
				tt.here(&w)
			}
			verdict, reason := Decide([]byte(tt.file), w)
			if verdict != tt.verdict || !strings.Contains(reason, tt.reason) || (reason == "") != (verdict == Go) {
				t.Errorf("verdict %d, %q; want %d, %q", verdict, reason, tt.verdict, tt.reason)
			}
		})
	}
	if verdict, reason := Decide(nil, here); verdict != Refuse || !strings.Contains(reason, "not prepared") {
		t.Errorf("without a file: %d, %q", verdict, reason)
	}
}

// Whatever is on the disk, nothing but an attachment here opens the gate.
func FuzzDecide(f *testing.F) {
	data, err := os.ReadFile("../../testdata/checkpoint/v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.ReplaceAll(string(data), "Attaching", "Attached")))
	f.Fuzz(func(t *testing.T, data []byte) {
		verdict, _ := Decide(data, here)
		if verdict == Go && !strings.Contains(string(data), "4711") {
			t.Errorf("opened by %s", data)
		}
	})
}
