//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestDocumentedManifests checks that the manifests of the pages and of the demo are valid.
func TestDocumentedManifests(t *testing.T) {
	f := setup(t, "documented")
	documents := map[string]string{}
	for _, page := range []string{"README.md", "docs/operate/claim-by-hand.md", "docs/operate/pools.md", "docs/operate/pools-in-pods.md"} {
		text, err := os.ReadFile(filepath.Join(lab.Root(), page))
		f.Must(err)
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			documents[page+": "+strings.SplitN(m[1], "\n", 2)[0]] = m[1]
		}
	}
	demo, err := filepath.Glob(filepath.Join(lab.Root(), "test/demo/manifests/*.yaml"))
	f.Must(err)
	for _, path := range demo {
		text, err := os.ReadFile(path)
		f.Must(err)
		documents[filepath.Base(path)] = string(text)
	}
	if len(documents) < 4 {
		t.Errorf("found only %d documents", len(documents))
	}
	for name, text := range documents {
		out, err := f.Cluster.KubectlInput(f.Ctx, text, "apply", "-n", f.NS, "--dry-run=server", "-f", "-")
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for _, doc := range strings.Split(text, "\n---\n") {
			checkParameters(t, name, doc)
		}
	}
}

// checkParameters validates the opaque parameters, which the API server does not.
func checkParameters(t *testing.T, name, doc string) {
	t.Helper()
	var template resourceapi.ResourceClaimTemplate
	if err := yaml.Unmarshal([]byte(doc), &template); err != nil || template.Kind != "ResourceClaimTemplate" {
		return
	}
	for _, c := range template.Spec.Spec.Devices.Config {
		config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
		if err == nil {
			err = config.Validate(nil).ToAggregate()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
