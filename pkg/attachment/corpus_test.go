package attachment

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"go.yaml.in/yaml/v3"
)

// corpusEnv is the variable with a folder of public manifests. They are not part of the repository,
// because the licences of many do not allow it.
const corpusEnv = "NADRA_CORPUS"

// corpus has the objects of a folder of manifests.
type corpus struct {
	networks    []*nadv1.NetworkAttachmentDefinition
	annotations []string
	where       map[string]string // by annotation
}

// loadCorpus reads every manifest. It returns nil if no folder is given.
func loadCorpus(t testing.TB) *corpus {
	t.Helper()
	root := os.Getenv(corpusEnv)
	if root == "" {
		return nil
	}
	c := &corpus{where: map[string]string{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		return c.read(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *corpus) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	for {
		var doc any
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.collect(path, doc)
	}
}

// collect collects networks and annotations from all levels, because many kinds of objects contain
// pods.
func (c *corpus) collect(path string, v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			c.collect(path, item)
		}
	case map[string]any:
		if v["kind"] == "NetworkAttachmentDefinition" {
			c.networks = append(c.networks, networkObject(v))
		}
		metadata, _ := v["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if value, ok := annotations[NetworksAnnotation].(string); ok {
			c.annotations = append(c.annotations, value)
			c.where[value] = path
		}
		for _, item := range v {
			c.collect(path, item)
		}
	}
}

func networkObject(v map[string]any) *nadv1.NetworkAttachmentDefinition {
	obj := &nadv1.NetworkAttachmentDefinition{}
	metadata, _ := v["metadata"].(map[string]any)
	obj.Name, _ = metadata["name"].(string)
	obj.Namespace, _ = metadata["namespace"].(string)
	spec, _ := v["spec"].(map[string]any)
	obj.Spec.Config, _ = spec["config"].(string)
	return obj
}

// located matches errors of JSON syntax.
var located = regexp.MustCompile(`spec\.config: line \d+, column \d+: `)

func TestCorpusNetworks(t *testing.T) {
	c := loadCorpus(t)
	if c == nil {
		t.Skipf("set %s to a folder of manifests to read every network in it", corpusEnv)
	}
	var parsed, plugins, empty, notJSON, other int
	for _, obj := range c.networks {
		n, err := ParseNetwork(obj)
		switch {
		case err == nil:
			parsed++
			plugins += len(n.Plugins)
		case errors.Is(err, ErrNoConfig):
			empty++
		case located.MatchString(err.Error()):
			notJSON++
			t.Log(err)
		default:
			other++
			t.Errorf("unexpected error: %v", err)
		}
	}
	t.Logf("%d networks: %d parsed with %d plugins, %d without configuration, %d not JSON, %d other errors",
		len(c.networks), parsed, plugins, empty, notJSON, other)
	if notJSON != 5 {
		t.Errorf("%d networks are not JSON, the corpus is known to have 5", notJSON)
	}
}

func TestCorpusAnnotations(t *testing.T) {
	c := loadCorpus(t)
	if c == nil {
		t.Skipf("set %s to a folder of manifests to read every annotation in it", corpusEnv)
	}
	var parsed, selected, refused int
	for _, annotation := range c.annotations {
		selections, err := ParseSelections(annotation, "default")
		if err != nil {
			refused++
			t.Logf("%s: %v", c.where[annotation], err)
			continue
		}
		parsed++
		selected += len(selections)
		for _, s := range selections {
			checkConfigRoundTrip(t, s)
		}
		if len(selections) > 0 {
			checkClaimRoundTrip(t, selections)
		}
	}
	t.Logf("%d annotations: %d parsed with %d networks, %d refused", len(c.annotations), parsed, selected, refused)
	if refused != 2 {
		t.Errorf("%d annotations are refused, the corpus is known to have 2, with a slash in a JSON name", refused)
	}
}
