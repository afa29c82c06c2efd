package gate

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/bounded"
)

// here is the place of the first record in testdata/checkpoint/v1.json, whose format
// pkg/checkpoint's tests check.
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
	deleted := "[AttachCancelled] the pod is being deleted"
	refused := refusing(file, "Attaching", deleted)
	both := strings.ReplaceAll(refused, `"phase": "Attached"`, `"phase": "Prepared"`)
	tests := []struct {
		name    string
		file    string
		here    func(*Where)
		verdict Verdict
		code    reason.Code
		names   string // what the message names
	}{
		{"all attached here", attached, nil, Go, "", ""},
		{"the runtime does not name the sandbox", attached, func(w *Where) { w.SandboxID = "" }, Go, "", ""},
		{"the second is being attached", file, nil, Wait, reason.AttachRunning, "pod default/web: network default/blue (net2), phase Attaching: "},
		{"network-status is not stored", unlisted, nil, Wait, reason.StatusNotStored, "network-status"},
		{"network-status is not stored, and the pod is being deleted", refusing(unlisted, "Attached", deleted), nil, Refuse, reason.AttachCancelled, deleted},
		{"another namespace", attached, func(w *Where) { w.Cookie++ }, Wait, reason.GateStaleAttachment, "sandbox sandbox-1"},
		{"another sandbox", attached, func(w *Where) { w.SandboxID = "sandbox-2" }, Wait, reason.GateStaleAttachment, "sandbox-1"},
		{"another boot of the node", attached, func(w *Where) { w.BootID = "boot-2" }, Wait, reason.GateStaleAttachment, "pod default/web: "},
		{"no cookie recorded", strings.ReplaceAll(attached, "4711", "0"), func(w *Where) { w.Cookie = 0 }, Wait, reason.GateStaleAttachment, "(net1)"},
		{"prepared only", strings.ReplaceAll(attached, "Attached", "Prepared"), nil, Wait, reason.GateNotAttached, "phase Prepared: "},
		{"an unknown phase", strings.ReplaceAll(attached, "Attached", "Detaching"), nil, Wait, reason.GateNotAttached, "phase Detaching: "},
		{"attached without a sandbox", `{"version":1,"records":[{"phase":"Attached","bootID":"boot-1"}]}`, nil, Wait, reason.GateNotAttached, ""},
		{"the second is refused", refused, nil, Refuse, reason.AttachCancelled, "pod default/web: network default/blue (net2), phase Attaching: " + deleted},
		{"the second is refused while the first may come", both, nil, Refuse, reason.AttachCancelled, "(net2), phase Attaching: " + deleted},
		{"refused before the node was rebooted", refused, func(w *Where) { w.BootID = "boot-2" }, Wait, reason.GateStaleAttachment, "pod default/web: "},
		{"attached here in spite of a refusal", refusing(attached, "Attached", "x"), nil, Go, "", ""},
		{
			"refused and attached elsewhere", refusing(attached, "Attached", "[PluginFailed] no address is left"), func(w *Where) { w.Cookie++ },
			Refuse, reason.PluginFailed, "(net1), phase Attached: [PluginFailed] no address is left",
		},
		{
			"refused with two codes", refusing(file, "Attaching", "attaching: [AttachTimeout] no success within 55s: [PluginFailed] x"), nil,
			Refuse, reason.AttachTimeout, "(net2), phase Attaching: attaching: [AttachTimeout] ",
		},
		{"refused without a code", refusing(file, "Attaching", "no address is left"), nil, Refuse, reason.GateNotAttached, "(net2), phase Attaching: no address is left"},
		{"an empty refusal", refusing(file, "Attaching", ""), nil, Wait, reason.AttachRunning, ""},
		{"a later format", strings.ReplaceAll(attached, `"version": 1`, `"version": 3`), nil, Refuse, reason.GateRecordUnreadable, "version 3"},
		{"with a device of another driver", strings.ReplaceAll(attached, `"version": 1`, `"version": 2`), nil, Go, "", ""},
		{"a device only", `{"version":1,"records":[{"phase":"Prepared","deviceOnly":true}]}`, nil, Go, "", ""},
		{"removed by an edit", `{"version":1,"records":[{"phase":"Attaching","removed":true}]}`, nil, Go, "", ""},
		{"added to the running sandbox", fmt.Sprintf(`{"version":1,"records":[{"phase":"Prepared","liveIn":%q}]}`, here.SandboxID), nil, Go, "", ""},
		{"added to another sandbox", `{"version":1,"records":[{"phase":"Prepared","liveIn":"other"}]}`, nil, Wait, reason.GateNotAttached, ""},
		{"added, and the sandbox is unknown", `{"version":1,"records":[{"phase":"Prepared","liveIn":""}]}`, func(w *Where) { w.SandboxID = "" }, Wait, reason.GateNotAttached, ""},
		{"no records", `{"version":1,"records":[]}`, nil, Refuse, reason.GateRecordUnreadable, "pod default/web: "},
		{"cut off", attached[:len(attached)/2], nil, Refuse, reason.GateRecordUnreadable, "pod default/web: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := here
			w.Pod = "default/web"
			if tt.here != nil {
				tt.here(&w)
			}
			verdict, cause := Decide([]byte(tt.file), w)
			if verdict != tt.verdict || (cause == nil) != (verdict == Go) {
				t.Fatalf("verdict %d, %v; want %d", verdict, cause, tt.verdict)
			}
			// The kubelet and the runtime pass on the text alone.
			if cause != nil && (reason.Of(cause) != tt.code || reason.In(cause.Error()) != tt.code || !strings.Contains(cause.Error(), tt.names)) {
				t.Errorf("%v; want %s and %q", cause, tt.code, tt.names)
			}
		})
	}
	w := here
	w.Pod = "default/web"
	if verdict, cause := Decide(nil, w); verdict != Refuse || reason.Of(cause) != reason.GateNoRecord || !strings.Contains(cause.Error(), "pod default/web: ") {
		t.Errorf("without a file: %d, %v", verdict, cause)
	}
	w.Pod = "" // the gate's specification has no pod
	if _, cause := Decide(nil, w); strings.Contains(cause.Error(), "pod :") {
		t.Errorf("without a pod: %v", cause)
	}
}

// refusing adds a refusal to the records of a phase.
func refusing(file, phase, why string) string {
	return strings.ReplaceAll(file, `"phase": "`+phase+`"`, `"phase": "`+phase+`", "refusal": "`+why+`"`)
}

// TestRecordsAreOfCheckpoint checks that every field of the gate's types is one of
// pkg/checkpoint's, by name and kind.
func TestRecordsAreOfCheckpoint(t *testing.T) {
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

// FuzzDecide checks that only an attachment here opens the gate, whatever is on the disk.
func FuzzDecide(f *testing.F) {
	data, err := os.ReadFile("../../testdata/checkpoint/v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.ReplaceAll(string(data), "Attaching", "Attached")))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded.Run(t, len(data), func() {
			verdict, _ := Decide(data, here)
			var file claimFile
			_ = json.Unmarshal(data, &file)
			unawaited := slices.ContainsFunc(file.Records, func(r record) bool { return r.DeviceOnly || r.Removed || r.LiveIn != "" })
			if verdict == Go && !unawaited && !strings.Contains(string(data), "4711") {
				t.Errorf("opened by %s", data)
			}
		})
	})
}

// TestDecideGrowth checks that a file of many records is not work with the square of their number: each container waits for it.
func TestDecideGrowth(t *testing.T) {
	bounded.Growth(t, 2000, func(n int) func() {
		file := []byte(`{"version":1,"records":[` + strings.Repeat(`{"phase":"Attached","sandbox":{"id":"sandbox-1"},"statusStored":true},`, n) + `{"phase":"Prepared"}]}`)
		return func() { _, _ = Decide(file, here) }
	})
}
