package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/bounded"
)

// FuzzPod admits any JSON: Pod must not panic, the edits must result in a pod, and admitting it again
// must change nothing.
func FuzzPod(f *testing.F) {
	paths, err := filepath.Glob("../../testdata/admission/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	var manifests []byte
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range archive.Files {
			if s.Name == "cluster" && bytes.Contains(s.Data, []byte("ResourceClaimTemplate")) {
				manifests = s.Data
			}
			if !strings.HasPrefix(s.Name, "pod/") {
				continue
			}
			pod, err := yaml.YAMLToJSON(s.Data)
			if err != nil {
				f.Fatal(err)
			}
			for with := range byte(4) {
				f.Add(pod, with)
				f.Add(pod, with|8)
			}
		}
	}
	c := clusterOf(f, manifests)
	f.Fuzz(func(t *testing.T, pod []byte, with byte) {
		bounded.Run(t, len(pod), func() {
			if !json.Valid(pod) {
				return
			}
			o := Options{Pools: with&2 != 0, Isolation: attachment.Isolation{On: with&4 != 0}}
			if with&1 != 0 {
				o.DefaultOwner = "nadra"
			}
			if with&8 != 0 {
				o.DefaultNetworks = []attachment.NetworkRef{{Namespace: "infra", Name: "wan"}, {Namespace: "shop", Name: "lan"}}
			}
			checkAdmitted(t, pod, "shop", o, maps.Clone(c))
		})
	})
}

// TestPodGrowth checks that a pod with many containers is not admitted with the square of their number.
func TestPodGrowth(t *testing.T) {
	c := clusterOf(t, nil)
	bounded.Growth(t, 250, func(n int) func() {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, `{"name":"c%d","image":"i"},`, i)
		}
		pod := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"k8s.v1.cni.cncf.io/networks":"lan"}},"spec":{"containers":[` +
			strings.TrimSuffix(out.String(), ",") + "]}}")
		return func() { checkAdmitted(t, pod, "shop", Options{DefaultOwner: "nadra"}, maps.Clone(c)) }
	})
}
