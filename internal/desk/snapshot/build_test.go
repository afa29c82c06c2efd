package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/test/bounded"
	"github.com/nadra-dev/nadra/test/golden"
)

func objects(t *testing.T) Input {
	t.Helper()
	text, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Source: "objects.yaml"}
	if err := in.ReadObjects(text); err != nil {
		t.Fatal(err)
	}
	return in
}

// withNodes adds the observations of two nodes, one of which fails.
func withNodes(in Input) Input {
	in.Nodes = map[string]nodeObservation{
		"worker-1": {Pods: &probe.NodePods{
			VFs: []probe.VF{{PCI: "0000:03:02.0", PF: "eth2", VLAN: 6}, {PCI: "0000:03:02.1", PF: "eth2"}},
			Pods: []probe.Pod{{
				UID:   "0a1b2c3d-0000-0000-0000-000000000001",
				Links: []probe.Link{{Name: "f1", Kind: "macvlan", Mode: "bridge", MTU: 9000, Up: true, Running: true, Addresses: []string{"10.3.0.7/24"}}},
				Containers: []probe.Container{
					{ID: "aaaaaaaaaaaa", Env: map[string]string{"PCIDEVICE_INTEL_COM_SRIOV": "0000:03:02.0", "NCCL_SOCKET_IFNAME": "f1"}},
					{ID: "the sandbox's", Env: map[string]string{"PCIDEVICE_X": "y"}},
				},
			}},
		}},
		"worker-2": {Err: errors.New("waiting for pod nadra-probe: ImagePullBackOff")},
	}
	return in
}

func TestBuildGolden(t *testing.T) {
	for path, in := range map[string]Input{"testdata/snapshot.json": objects(t), "testdata/fromnodes.json": withNodes(objects(t))} {
		got, err := document.JSON(Build(in), "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, path, string(got))
		if strings.Contains(string(got), "s3cret") {
			t.Errorf("%s contains a secret", path)
		}
		back, err := Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := document.JSON(back, "  ")
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("%s does not read back as it was written: %v", path, err)
		}
	}
}

// A snapshot does not depend on the order of objects.
func TestBuildIsStable(t *testing.T) {
	want, err := document.JSON(Build(withNodes(objects(t))), "  ")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		in := withNodes(objects(t))
		slices.Reverse(in.Pods)
		slices.Reverse(in.Networks)
		got, err := document.JSON(Build(in), "  ")
		if err != nil || !bytes.Equal(want, got) {
			t.Fatalf("another snapshot of the same state: %v\n%s", err, cmp.Diff(string(want), string(got)))
		}
	}
}

func TestTotals(t *testing.T) {
	want := Totals{Pods: 3, Interfaces: 3, Networks: 4, Nadra: 1, Multus: 2, Lacking: 2, NotRunning: 1, Observed: 1}
	if diff := cmp.Diff(want, Build(withNodes(objects(t))).Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// Networks that could not be read are not recorded as missing.
func TestUnreadNetworks(t *testing.T) {
	in := objects(t)
	in.Networks, in.Unread = nil, map[inspect.Kind]bool{inspect.Networks: true}
	if got := Build(in).Networks; len(got) != 0 {
		t.Errorf("networks %+v", got)
	}
	in.Unread, in.Known = nil, []string{"core5g/unused"}
	if got := index(Build(in)).networks["core5g/unused"]; got == nil || !got.Missing {
		t.Errorf("a known network that was deleted: %+v", got)
	}
}

func TestReadObjects(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n"
	for name, test := range map[string]struct{ text, says string }{
		"nothing":         {"", ""},
		"empty documents": {"---\n---\n", ""},
		"JSON":            {`{"apiVersion": "v1", "kind": "PodList", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]}`, ""},
		"twice":           {pod + "---\n" + pod, "document 2: Pod shop/a: "},
		"no YAML":         {"a: [", "document 1"},
		"another type":    {pod + "spec: {containers: 7}\n", "document 1: Pod shop/a: "},
		"in a list":       {"kind: List\nitems: [{}, {kind: Pod, apiVersion: v1, metadata: {name: b}, spec: 1}]\n", "document 1: items[1]: Pod /b"},
		"no object":       {"- a\n", "document 1"},
	} {
		var in Input
		err := in.ReadObjects([]byte(test.text))
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: error %v, want %q", name, err, test.says)
		}
	}
}

func TestParse(t *testing.T) {
	const head = `{"apiVersion": "nadra.dev/v1alpha1", "kind": "Snapshot", `
	for name, test := range map[string]struct{ text, says string }{
		"a newer field":      {head + `"pods": [], "fresh": 1}`, ""},
		"another kind":       {`{"apiVersion": "nadra.dev/v1alpha1", "kind": "ScanReport"}`, `kind "ScanReport"`},
		"another version":    {`{"apiVersion": "nadra.dev/v9", "kind": "Snapshot"}`, `"nadra.dev/v9"`},
		"no JSON":            {"pods: []", "kubectl nadra snapshot"},
		"no pods":            {head + `"networks": []}`, "pods"},
		"a nameless pod":     {head + `"pods": [{}]}`, "pods[0] "},
		"a pod twice":        {head + `"pods": [{"namespace": "a", "name": "b"}, {"namespace": "a", "name": "b"}]}`, "pods[1]: pod a/b "},
		"an empty interface": {head + `"pods": [{"namespace": "a", "name": "b", "interfaces": [{}]}]}`, "pods[0].interfaces[0] of pod a/b"},
		"a nameless network": {head + `"pods": [], "networks": [{}]}`, "networks[0]"},
		"of another type":    {head + `"pods": {}}`, "cannot unmarshal"},
	} {
		_, err := Parse([]byte(test.text))
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: error %v, want %q", name, err, test.says)
		}
	}
}

// Every file is an error with a message, or a snapshot that can be compared.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/snapshot.json", "testdata/fromnodes.json"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"apiVersion": "nadra.dev/v1alpha1", "kind": "Snapshot", "pods": [{"namespace": "a", "name": "b", "seen": {"links": null, "routes": [{}], "rules": [{}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		bounded.Run(t, len(text), func() {
			s, err := Parse(text)
			if err != nil {
				if err.Error() == "" {
					t.Error("an error without words")
				}
				return
			}
			written, err := document.JSON(s, "  ")
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(written)
			if err != nil {
				t.Fatalf("an encoded snapshot cannot be parsed: %v", err)
			}
			r, err := Compare(s, again, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Summary.Findings.Total() != len(r.Differences) || r.Summary.Missing+r.Summary.Added > 0 {
				t.Errorf("compared with itself: %+v", r.Summary)
			}
		})
	})
}

// TestCompareGrowth checks that snapshots of many pods are not compared with the square of their number. Pods have few
// interfaces, which Compare compares with each other.
func TestCompareGrowth(t *testing.T) {
	bounded.Growth(t, 1000, func(n int) func() {
		s := &Snapshot{APIVersion: APIVersion, Kind: Kind}
		for i := range n {
			s.Pods = append(s.Pods, Pod{Namespace: "a", Name: fmt.Sprint("p", i), Interfaces: []Interface{{Network: "a/b", Name: "net1"}}})
		}
		text, err := document.JSON(s, "  ")
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			was, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Compare(was, was, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// recreated returns two snapshots of a Deployment whose pods were all recreated on other nodes, except for some that do not
// run, with as many networks.
func recreated(pods int) (was, now *Snapshot) {
	was, now = &Snapshot{Nodes: []Node{{Name: "n"}}}, &Snapshot{Nodes: []Node{{Name: "n"}}}
	web := &Workload{Kind: "Deployment", Name: "web"}
	for i := range pods {
		network := Network{Namespace: "a", Name: fmt.Sprint("b", i), Digest: "1"}
		was.Networks, now.Networks = append(was.Networks, network), append(now.Networks, network)
		p := Pod{Namespace: "a", Name: fmt.Sprint("web-was-", i), Node: fmt.Sprint("n", i), Workload: web, Interfaces: []Interface{{Network: network.String(), Name: "net1"}}}
		was.Pods = append(was.Pods, p)
		p.Name, p.Node = fmt.Sprint("web-now-", i), fmt.Sprint("n", pods-i)
		if i%4 > 0 {
			now.Pods = append(now.Pods, p)
		} else {
			now.NotRunning = append(now.NotRunning, NotRunning{Namespace: "a", Name: p.Name, Workload: &Workload{Kind: "Deployment", Name: "other"}})
		}
	}
	return was, now
}

// BenchmarkCompare measures the comparison of a large Deployment before and after its pods were recreated. Ten times as
// many pods must take about ten times as long.
func BenchmarkCompare(b *testing.B) {
	for _, pods := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			was, now := recreated(pods)
			for b.Loop() {
				if _, err := Compare(was, now, Options{Namespace: "a"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCompareRecreatedGrowth checks that the comparison of recreated pods does not grow with the square of their number.
func TestCompareRecreatedGrowth(t *testing.T) {
	bounded.Growth(t, 1000, func(n int) func() {
		was, now := recreated(n)
		return func() {
			if _, err := Compare(was, now, Options{Namespace: "a"}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
