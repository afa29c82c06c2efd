package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// definition matches a NAD on a page, and the line before it, which may name a case of
// the conformance suite.
var definition = regexp.MustCompile("(?s)([^\n]*)\n\n```yaml\n(.*?)```")

// TestDefinitions checks that the NADs on the pages about plugins can be parsed, and that
// those from a case of the conformance suite have the same configuration there.
func TestDefinitions(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "docs", "cni", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	count, tried := 0, 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range definition.FindAllStringSubmatch(string(text), -1) {
			count++
			var nad nadv1.NetworkAttachmentDefinition
			if err := yaml.UnmarshalStrict([]byte(m[2]), &nad); err != nil {
				t.Errorf("%s: %v\n%s", name, err, m[2])
				continue
			}
			nad.Namespace = "default"
			if _, err := attachment.ParseNetwork(&nad); err != nil || nad.Kind != "NetworkAttachmentDefinition" {
				t.Errorf("%s: %s %s: %v", name, nad.Kind, nad.Name, err)
			}
			if group := groupOf(m[1]); group != "" {
				tried++
				if !slices.ContainsFunc(configsOf(t, group), func(c any) bool { return reflect.DeepEqual(c, decoded(t, nad.Spec.Config)) }) {
					t.Errorf("%s: NAD %s is not one of the suite's %s", name, nad.Name, group)
				}
			}
		}
	}
	if count < 12 || tried < 8 {
		t.Errorf("found only %d definitions, %d of them from the suite", count, tried)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if blocks := strings.Count(string(text), "```yaml\n"); blocks != len(definition.FindAllString(string(text), -1)) {
			t.Errorf("%s: a definition needs a line that says where it is from, and an empty one", name)
		}
	}
}

// groupOf returns the group of the first case that a line names after "From".
func groupOf(line string) string {
	m := regexp.MustCompile("^From `([a-z-]+)/[\\w.-]+`").FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return m[1]
}

func configsOf(t *testing.T, group string) []any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "test", "conformance", "testdata", "cases", group+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ NADs map[string]string }
	if err := yaml.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	var all []any
	for _, config := range cases.NADs {
		var c any
		if json.Unmarshal([]byte(config), &c) == nil { // some are no JSON on purpose
			all = append(all, c)
		}
	}
	return all
}

func decoded(t *testing.T, config string) any {
	t.Helper()
	var c any
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Errorf("%v: %s", err, config)
	}
	return c
}
