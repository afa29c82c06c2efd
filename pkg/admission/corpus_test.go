package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestCorpus admits the pods of the public manifests in the folder $NADRA_CORPUS, for Multus and for
// nadra. It checks that admitting them again changes nothing.
func TestCorpus(t *testing.T) {
	root := os.Getenv("NADRA_CORPUS")
	if root == "" {
		t.Skip("set NADRA_CORPUS to a folder of manifests to admit all of their pods")
	}
	counts := map[string]map[Outcome]int{"nadra": {}, "multus": {}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, pod := range podsIn(text) {
			for owner, outcomes := range counts {
				outcomes[admitEverything(t, path, pod, owner)]++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(counts)
	if counts["multus"][OnMultus] < 10 || counts["nadra"][Converted] < 10 || counts["multus"][Refused] > 0 {
		t.Errorf("got %v", counts)
	}
}

// admitEverything decides about a pod in a cluster that has every network.
func admitEverything(t *testing.T, path string, pod []byte, owner string) Outcome {
	t.Helper()
	c := cluster{}
	var meta corev1.Pod
	if json.Unmarshal(pod, &meta) != nil {
		return "" // a template that is yet to be rendered
	}
	namespace := cmp.Or(meta.Namespace, "shop")
	selections, _ := attachment.ParseSelections(meta.Annotations[attachment.NetworksAnnotation], namespace)
	for _, s := range selections {
		nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion": "1.0.0", "type": "bridge"}`}}
		nad.Namespace, nad.Name = s.Network.Namespace, s.Network.Name
		c[key("NetworkAttachmentDefinition", nad.Namespace, nad.Name)] = nad
	}
	o := Options{DefaultOwner: owner}
	d := Pod(pod, namespace, o, c.lookups())
	if d.Outcome == Refused {
		t.Logf("%s: %s", path, d.Refusal)
	}
	checkAdmitted(t, pod, namespace, o, maps.Clone(c))
	return d.Outcome
}

// podsIn returns the pods and pod templates of a manifest that have the annotation.
func podsIn(text []byte) [][]byte {
	var out [][]byte
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			spec, _ := v["spec"].(map[string]any)
			raw, err := json.Marshal(v)
			if spec["containers"] != nil && err == nil && bytes.Contains(raw, []byte(`"`+attachment.NetworksAnnotation+`"`)) {
				out = append(out, raw)
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	for _, doc := range bytes.Split(text, []byte("\n---")) {
		var v any
		if yaml.Unmarshal(doc, &v) == nil {
			walk(v)
		}
	}
	return out
}
