package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pinned matches an action at a commit, with its version in a comment.
var pinned = regexp.MustCompile(`(?m)uses: [\w./-]+@[0-9a-f]{40} # v\d`)

// TestWorkflows checks that each workflow may only read, pins its actions to commits, and
// that CI runs .ci/run.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow (%v)", err)
	}
	runs := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v", file, workflow.Permissions)
		}
		for name, job := range workflow.Jobs {
			if len(job.Permissions) > 0 {
				t.Errorf("%s: job %s has permissions of its own", file, name)
			}
			for _, step := range job.Steps {
				runs = runs || step.Run == ".ci/run"
			}
		}
		if uses := strings.Count(string(text), "uses: "); uses != len(pinned.FindAll(text, -1)) {
			t.Errorf("%s: %d of %d actions are pinned to a commit", file, len(pinned.FindAll(text, -1)), uses)
		}
	}
	if !runs {
		t.Error("no workflow runs .ci/run")
	}
}

// TestIssueForms checks that each form for issues can be parsed, and that its fields have
// identifiers of their own.
func TestIssueForms(t *testing.T) {
	for _, name := range []string{"bug.yml", "feature.yml", "question.yml"} {
		text, err := os.ReadFile(filepath.Join(root, ".github", "ISSUE_TEMPLATE", name))
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  map[string]any
				Validations map[string]bool
			}
		}
		if err := yaml.UnmarshalStrict(text, &form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		seen := map[string]bool{}
		for _, field := range form.Body {
			if field.ID == "" || seen[field.ID] || field.Attributes["label"] == nil {
				t.Errorf("%s: field %q has no label, or an identifier in use", name, field.ID)
			}
			seen[field.ID] = true
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s lacks a name, a description or fields", name)
		}
		if !strings.Contains(string(text), "kubectl nadra doctor") {
			t.Errorf("%s does not ask for the output of kubectl nadra doctor", name)
		}
	}
}
