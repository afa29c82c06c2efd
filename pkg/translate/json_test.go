package translate

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJSONOnly converts JSON that the YAML parser rejects. Its escapes must stay.
func TestJSONOnly(t *testing.T) {
	long := strings.Repeat("k", 2000)
	for _, odd := range []string{`"\ud83d\ude00"`, "\"\x7f\"", `"\ud83d"`, `{"` + long + `": 1}`, `"\u0000"`, `"\/"`} {
		text := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}},
 "x": ` + odd + `, "spec": {"containers": [{"name": "c", "args": [` + odd + `]}]}}`
		in := Input{Files: []File{{"p.json", []byte(text)}}}
		got := Convert(in)
		if len(got.Workloads) != 1 || !got.Workloads[0].Changed || !json.Valid(got.Files[0].Data) || strings.Count(string(got.Files[0].Data), odd) != 2 {
			t.Errorf("%s: got %v\n%s", odd, got.Findings, got.Files[0].Data)
		}
		checkIdempotent(t, in, got)
	}
}
