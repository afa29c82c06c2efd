package attachment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
)

func seeds(f *testing.F, pattern string) []string {
	f.Helper()
	files, err := filepath.Glob("../../testdata/attachment/" + pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in %s: %v", pattern, err)
	}
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return out
}

// FuzzParseNetwork: what parses, libcni reads; parsing the list again gives the
// same network; and arguments and a device can be merged into it.
func FuzzParseNetwork(f *testing.F) {
	for _, config := range seeds(f, "networks/*") {
		f.Add(config)
	}
	if c := loadCorpus(f); c != nil {
		for _, obj := range c.networks {
			f.Add(obj.Spec.Config)
		}
	}
	f.Fuzz(func(t *testing.T, config string) {
		n, err := ParseNetwork(nad(config))
		if err != nil {
			return
		}
		list, err := libcni.NetworkConfFromBytes(n.Conflist)
		if err != nil {
			t.Fatalf("libcni on %s: %v", n.Conflist, err)
		}
		if list.Name != n.CNIName || len(list.Plugins) != len(n.Plugins) {
			t.Errorf("libcni reads %q with %d plugins, we read %q with %d", list.Name, len(list.Plugins), n.CNIName, len(n.Plugins))
		}
		again, err := ParseNetwork(nad(string(n.Conflist)))
		if err != nil {
			t.Fatalf("parsing %s again: %v", n.Conflist, err)
		}
		if diff := cmp.Diff(n, again); diff != "" {
			t.Errorf("parsing again (-first +second):\n%s", diff)
		}
		checkMerge(t, n)
	})
}

func checkMerge(t *testing.T, n Network) {
	a, err := NewAttachment(n, Selection{CNIArgs: object{"k": mustJSON("v")}}, "net1")
	if err != nil {
		return // args of the configuration's own that are no object
	}
	a, err = a.WithDevice("0000:03:00.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := libcni.NetworkConfFromBytes(a.Conflist); err != nil {
		t.Errorf("libcni on %s: %v", a.Conflist, err)
	}
}

// FuzzParseSelections: what parses is valid in a claim and comes out of it
// again.
func FuzzParseSelections(f *testing.F) {
	for _, annotation := range seeds(f, "annotations/*") {
		f.Add(annotation)
	}
	if c := loadCorpus(f); c != nil {
		for _, annotation := range c.annotations {
			f.Add(annotation)
		}
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		selections, err := ParseSelections(annotation, "default")
		if err != nil {
			return
		}
		for _, s := range selections {
			checkConfigRoundTrip(t, s)
		}
		if _, err := InterfaceNames(selections); err != nil || len(selections) == 0 {
			return
		}
		if _, err := ClaimSpec(selections); err == nil {
			checkClaimRoundTrip(t, selections)
		}
	})
}
