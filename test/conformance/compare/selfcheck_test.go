package compare

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// These tests prove that the suite can fail: they change one side, or the page, and expect
// a difference.

func multusSide() Side {
	call := func(command, plugin, stdin string) Call {
		return Call{Type: plugin, Stdin: stdin, Env: map[string]string{
			"CNI_COMMAND": command, "CNI_IFNAME": "net1", "CNI_PATH": "/bin:/bin",
			"CNI_ARGS": "IgnoreUnknown=true;K8S_POD_NAME=p;IgnoreUnknown=1;K8S_POD_NAME=p",
		}}
	}
	return Side{
		Calls: []Call{
			call("ADD", "bridge", `{"type": "bridge", "n": 1.0}`),
			call("ADD", "tuning", `{"prevResult": {"interfaces": [{"name": "br0", "mac": "aa:aa:aa:00:00:01"}, {"name": "veth01234567", "mac": "aa:aa:aa:00:00:02"}, {"name": "net1", "mac": "aa:aa:aa:00:00:03"}]}}`),
			call("DEL", "tuning", `{}`),
			call("DEL", "bridge", `{}`),
		},
		Added: State{
			"links":  map[string]any{"net1": map[string]any{"mac": "aa:aa:aa:00:00:03", "mtu": "1500"}},
			"sysctl": map[string]any{"ipv4/conf/net1/rp_filter": "0"},
		},
		Status: "[{\n    \"name\": \"ns/a\",\n    \"mac\": \"aa:aa:aa:00:00:03\"\n}]",
		Left:   State{"files": map[string]any{}},
	}
}

// nadraSide returns the same pod with other random values and without repeated CNI_ARGS.
func nadraSide() Side {
	s := multusSide()
	random := strings.NewReplacer("aa:aa:aa:", "bb:bb:bb:", "veth01234567", "veth89abcdef")
	for i, c := range s.Calls {
		c.Env["CNI_ARGS"] = "IgnoreUnknown=true;K8S_POD_NAME=p"
		s.Calls[i].Stdin = random.Replace(c.Stdin)
	}
	s.Added["links"].(map[string]any)["net1"].(map[string]any)["mac"] = "bb:bb:bb:00:00:03"
	s.Status = random.Replace(s.Status)
	return s
}

func TestEqualSides(t *testing.T) {
	if got := Sides(multusSide(), nadraSide(), ""); got != nil {
		t.Errorf("sides that differ only in what is random are not equal: %v", got)
	}
}

func TestChangedSides(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Side)
		want   []Difference
	}{
		"a setting":          {func(s *Side) { s.Added["sysctl"].(map[string]any)["ipv4/conf/net1/rp_filter"] = "2" }, []Difference{{"added.sysctl.ipv4/conf/net1/rp_filter", "0", "2"}}},
		"a random MAC moved": {func(s *Side) { s.Status = strings.ReplaceAll(s.Status, "00:03", "00:02") }, []Difference{{"status[0].mac", "<MAC of net1>", "<MAC of <end 1 of net1>>"}}},
		"a requested MAC":    {func(s *Side) { s.Status = strings.ReplaceAll(s.Status, "bb:bb:bb:00:00:03", "02:00:00:00:00:99") }, []Difference{{"status[0].mac", "<MAC of net1>", "02:00:00:00:00:99"}}},
		"a space":            {func(s *Side) { s.Status = strings.Replace(s.Status, "    ", "  ", 1) }, nil},
		"a number's form":    {func(s *Side) { s.Calls[0].Stdin = `{"type": "bridge", "n": 1}` }, []Difference{{"ADD net1 bridge.stdin.n", "1.0", "1"}}},
		"an argument":        {func(s *Side) { s.Calls[3].Env["CNI_ARGS"] += ";MAC=02:00:00:00:00:99" }, []Difference{{"DEL net1 bridge.env.CNI_ARGS.MAC", Absent, "02:00:00:00:00:99"}}},
		"arguments' order":   {func(s *Side) { s.Calls[3].Env["CNI_ARGS"] = "K8S_POD_NAME=p;IgnoreUnknown=true" }, []Difference{{"DEL net1 bridge.env.CNI_ARGS order", "IgnoreUnknown;K8S_POD_NAME", "K8S_POD_NAME;IgnoreUnknown"}}},
		"a call left out":    {func(s *Side) { s.Calls = s.Calls[:3] }, []Difference{{"DEL net1 bridge", "called", "not called"}}},
		"calls' order":       {func(s *Side) { slices.Reverse(s.Calls[2:]) }, []Difference{{"order of calls", "ADD net1 bridge, ADD net1 tuning, DEL net1 tuning, DEL net1 bridge", "ADD net1 bridge, ADD net1 tuning, DEL net1 bridge, DEL net1 tuning"}}},
		"a file left":        {func(s *Side) { s.Left["files"].(map[string]any)["/x"] = "y" }, []Difference{{"left.files./x", Absent, "y"}}},
		"an error":           {func(s *Side) { s.Error = "no" }, []Difference{{"outcome", "success", "error: no"}}},
		"an end that failed": {func(s *Side) { s.Stop = "no" }, []Difference{{"end", "success", "error: no"}}},
	} {
		t.Run(name, func(t *testing.T) {
			nadra := nadraSide()
			tc.change(&nadra)
			got := Sides(multusSide(), nadra, "02:00:00:00:00:99")
			if name == "a space" {
				if len(got) != 1 || got[0].Path != "status.bytes" {
					t.Errorf("got %v", got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const page = `Prose.

| No | Behaviour | nadra | How or why | Shown by |
| --- | --- | --- | --- | --- |
| B5-6 | DEL gets no ports | better | a \| bar | conformance, unit |
| A4-53 | leak | better | why | e2e |
| B7 | default route | same | why | conformance |

| no | something else |
| --- | --- |
| X-1 | no |
`

func TestPage(t *testing.T) {
	got, err := Page(page)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Row{"B5-6": {"B5-6", "better", true}, "A4-53": {"A4-53", "better", false}, "B7": {"B7", "same", true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Page(strings.Replace(page, "| e2e |", "| e2e | more |", 1)); err == nil {
		t.Error("a row with too many cells is accepted")
	}
	if _, err := Page(page + page); err == nil {
		t.Error("two rows with the same number are accepted")
	}
}

const newer = `
| No | Newer behaviour | nadra | Changed by | Shown by |
| --- | --- | --- | --- | --- |
| B5-6 | DEL gets ports | same | abc | conformance |
`

func TestNewerPage(t *testing.T) {
	old, err := Page(page + newer)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Row{"B5-6", "better", true}); old["B5-6"] != want {
		t.Errorf("the page's own version has the row %v, want %v", old["B5-6"], want)
	}
	got, err := NewerPage(page + newer)
	if err != nil {
		t.Fatal(err)
	}
	old["B5-6"] = Row{"B5-6", "same", true}
	if diff := cmp.Diff(old, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := NewerPage(page + strings.Replace(newer, "B5-6", "B5-7", 1)); err == nil {
		t.Error("a row that replaces none is accepted")
	}
}

var (
	portsOnDel = Difference{"DEL net1 bridge.stdin.runtimeConfig", Absent, `{"portMappings":[]}`}
	leak       = Difference{"ADD net1 bridge.stdin.runtimeConfig", `{"portMappings":[]}`, Absent}
	unknown    = Difference{"added.links.net1.mtu", "1500", "1400"}
)

func TestVerdicts(t *testing.T) {
	rows, err := Page(page)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		about       []string
		differs     string
		differences []Difference
		want        string // the summary
		stale       int
	}{
		"equal, and the rows are stale":     {nil, "", nil, "conformance: cases=1 equal=1 listed=0 failures=2", 2},
		"listed":                            {[]string{"B7"}, "", []Difference{portsOnDel}, "conformance: cases=1 equal=0 listed=1 failures=0", 0},
		"listed, and a row is stale":        {nil, "", []Difference{portsOnDel}, "conformance: cases=1 equal=0 listed=1 failures=1", 1},
		"an unlisted difference":            {[]string{"B7"}, "", []Difference{portsOnDel, unknown}, "conformance: cases=1 equal=0 listed=0 failures=1", 0},
		"one that the case knows":           {[]string{"B7"}, "B5-6", []Difference{unknown}, "conformance: cases=1 equal=0 listed=1 failures=0", 0},
		"a row that others show":            {[]string{"B7"}, "", []Difference{portsOnDel, leak}, "conformance: cases=1 equal=0 listed=0 failures=1", 0},
		"a row that says they are the same": {[]string{"B7"}, "B7", []Difference{portsOnDel, unknown}, "conformance: cases=1 equal=0 listed=0 failures=1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := Verdicts{Rows: maps.Clone(rows)}
			v.Judge(Subject{About: tc.about, Differs: tc.differs}, tc.differences)
			if stale := v.Stale(); len(stale) != tc.stale {
				t.Errorf("stale: %q, want %d", stale, tc.stale)
			}
			if got := v.Summary(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
