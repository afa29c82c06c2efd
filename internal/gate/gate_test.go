package gate

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
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
	attached := strings.ReplaceAll(file, `"phase": "Attaching"`, `"phase": "Attached", "statusStored": true`)
	unlisted := strings.Replace(attached, `"statusStored": true`, `"statusStored": false`, 1)
	refused := refusing(file, "Attaching", "the pod is being deleted")
	both := strings.ReplaceAll(refused, `"phase": "Attached"`, `"phase": "Prepared"`)
	tests := []struct {
		name    string
		file    string
		here    func(*Where)
		verdict Verdict
		reason  string
	}{
		{"all attached here", attached, nil, Go, ""},
		{"the runtime does not tell the sandbox", attached, func(w *Where) { w.SandboxID = "" }, Go, ""},
		{"the second is being attached", file, nil, Wait, "pod default/web: network default/blue (net2), phase Attaching: its plugins are still running"},
		{"network-status is not stored", unlisted, nil, Wait, "it is attached, but the pod's network-status, which lists it, is not stored"},
		{"network-status is not stored, and the pod is being deleted", refusing(unlisted, "Attached", "the pod is being deleted"), nil, Refuse, "the pod is being deleted"},
		{"another namespace", attached, func(w *Where) { w.Cookie++ }, Wait, "another network namespace, of sandbox sandbox-1"},
		{"another sandbox", attached, func(w *Where) { w.SandboxID = "sandbox-2" }, Wait, "another sandbox, sandbox-1"},
		{"another life of the node", attached, func(w *Where) { w.BootID = "boot-2" }, Wait, "before the node was rebooted"},
		{"no cookie recorded", strings.ReplaceAll(attached, "4711", "0"), func(w *Where) { w.Cookie = 0 }, Wait, "another network namespace"},
		{"prepared only", strings.ReplaceAll(attached, "Attached", "Prepared"), nil, Wait, "is it running on this node"},
		{"an unknown phase", strings.ReplaceAll(attached, "Attached", "Detaching"), nil, Wait, "has not attached it"},
		{"attached without a sandbox", `{"version":1,"records":[{"phase":"Attached","bootID":"boot-1"}]}`, nil, Wait, "has not attached it"},
		{"the second is refused", refused, nil, Refuse, "pod default/web: network default/blue (net2), phase Attaching: the pod is being deleted"},
		{"the second is refused while the first may come", both, nil, Refuse, "(net2), phase Attaching: the pod is being deleted"},
		{"attached here in spite of a refusal", refusing(attached, "Attached", "x"), nil, Go, ""},
		{"refused and attached elsewhere", refusing(attached, "Attached", "no address is left"), func(w *Where) { w.Cookie++ }, Refuse, "(net1), phase Attached: no address is left"},
		{"an empty refusal", refusing(file, "Attaching", ""), nil, Wait, "its plugins are still running"},
		{"a later format", strings.ReplaceAll(attached, `"version": 1`, `"version": 2`), nil, Refuse, "format version 2"},
		{"a device only", `{"version":1,"records":[{"phase":"Prepared","deviceOnly":true}]}`, nil, Go, ""},
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
	w := here
	w.Pod = "default/web"
	if verdict, reason := Decide(nil, w); verdict != Refuse || !strings.HasPrefix(reason, "pod default/web: the claim is not prepared") {
		t.Errorf("without a file: %d, %q", verdict, reason)
	}
}

// refusing gives the records of a phase a refusal.
func refusing(file, phase, why string) string {
	return strings.ReplaceAll(file, `"phase": "`+phase+`"`, `"phase": "`+phase+`", "refusal": "`+why+`"`)
}

// Every field of the gate's view is one of a record's, by name and kind.
func TestTheViewIsOfCheckpointRecords(t *testing.T) {
	sameFields(t, "record", reflect.TypeFor[record](), reflect.TypeFor[checkpoint.Record]())
}

func sameFields(t *testing.T, path string, view, of reflect.Type) {
	for view.Kind() == reflect.Pointer {
		view, of = view.Elem(), of.Elem()
	}
	if view.Kind() != of.Kind() {
		t.Errorf("%s: a %s in the gate, a %s in the record", path, view.Kind(), of.Kind())
		return
	}
	if view.Kind() != reflect.Struct {
		return
	}
	names := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = f.Type
	}
	for i := range view.NumField() {
		name, _, _ := strings.Cut(view.Field(i).Tag.Get("json"), ",")
		if names[name] == nil {
			t.Errorf("%s: no %q in the record", path, name)
			continue
		}
		sameFields(t, path+"."+name, view.Field(i).Type, names[name])
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
		var file claimFile
		_ = json.Unmarshal(data, &file)
		devices := slices.ContainsFunc(file.Records, func(r record) bool { return r.DeviceOnly })
		if verdict == Go && !devices && !strings.Contains(string(data), "4711") {
			t.Errorf("opened by %s", data)
		}
	})
}
