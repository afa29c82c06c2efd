package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pinned matches an action at a commit, with its version in a comment.
var pinned = regexp.MustCompile(`(?m)uses: [\w./-]+@[0-9a-f]{40} # v\d`)

// grants lists, by action, what a job may get beyond reading the repository, for a step with the action.
var grants = map[string]string{"github/codeql-action/analyze": "security-events", "github/codeql-action/upload-sarif": "security-events"}

// workflow is the part of a workflow that the tests read.
type workflow struct {
	On          map[string]any `json:"true"` // what YAML 1.1 makes of "on"
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// problems returns what a workflow does that none may: act with more rights than its steps need, run an action that is not
// pinned to a commit, keep a token where the steps after it find it, or run the lanes without the history from which they
// build the version before.
func (w workflow) problems(text string) (out []string) {
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		out = append(out, fmt.Sprintf("permissions %v", w.Permissions))
	}
	for name, job := range w.Jobs {
		allowed, whole := map[string]bool{}, false
		for _, step := range job.Steps {
			whole = whole || fmt.Sprint(step.With["fetch-depth"]) == "0"
			if step.Run == ".ci/run" && !whole {
				out = append(out, fmt.Sprintf("job %s: the lanes run without the history", name))
			}
			action, _, _ := strings.Cut(step.Uses, "@")
			allowed[grants[action]] = true
			if action == "actions/checkout" && step.With["persist-credentials"] != false {
				out = append(out, fmt.Sprintf("job %s: checkout keeps its credentials", name))
			}
		}
		for of, right := range job.Permissions {
			if !allowed[of] && (of != "contents" || right != "read") {
				out = append(out, fmt.Sprintf("job %s: %s: %s", name, of, right))
			}
		}
	}
	if uses := strings.Count(text, "uses: "); uses != len(pinned.FindAllString(text, -1)) {
		out = append(out, fmt.Sprintf("%d of %d actions are pinned to a commit", len(pinned.FindAllString(text, -1)), uses))
	}
	return out
}

// TestWorkflows checks each workflow, and that CI runs .ci/run and a schedule the check for vulnerabilities.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow (%v)", err)
	}
	runs := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, problem := range w.problems(string(text)) {
			t.Errorf("%s: %s", file, problem)
		}
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				for on := range w.On {
					runs[on+" "+step.Run] = true
				}
			}
		}
	}
	for _, want := range []string{"pull_request .ci/run", "schedule make vulncheck"} {
		if !runs[want] {
			t.Errorf("no workflow runs on %s", want)
		}
	}
}

// TestWorkflowProblems checks that workflows with too many rights, without pins and with credentials are reported.
func TestWorkflowProblems(t *testing.T) {
	const pin = "@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2\n"
	const read = "permissions: {contents: read}\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"good":                       {read + "jobs: {a: {steps: [{run: make}]}}", 0},
		"no permissions":             {"jobs: {a: {steps: [{run: make}]}}", 1},
		"a tag":                      {read + "jobs:\n  a:\n    steps:\n    - uses: actions/setup-go@v5\n", 1},
		"a pin":                      {read + "jobs:\n  a:\n    steps:\n    - uses: actions/setup-go" + pin, 0},
		"credentials":                {read + "jobs:\n  a:\n    steps:\n    - uses: actions/checkout" + pin, 1},
		"a right without its action": {read + "jobs: {a: {permissions: {security-events: write}, steps: [{run: make}]}}", 1},
		"no history":                 {read + "jobs: {a: {steps: [{run: .ci/run}]}}", 1},
		"to write":                   {read + "jobs: {a: {permissions: {contents: write}, steps: [{run: make}]}}", 1},
		"with its action":            {read + "jobs:\n  a:\n    permissions: {security-events: write}\n    steps:\n    - uses: github/codeql-action/analyze" + pin, 0},
	} {
		var w workflow
		if err := yaml.Unmarshal([]byte(c.text), &w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := w.problems(c.text); len(got) != c.want {
			t.Errorf("%s: %q, want %d problems", name, got, c.want)
		}
	}
}

// TestDependencyUpdates checks that dependabot looks at each Go module of the repository, at nothing else, and at the
// actions of the workflows.
func TestDependencyUpdates(t *testing.T) {
	var config struct {
		Version int
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	covered := map[string]int{}
	for _, update := range config.Updates {
		for _, directory := range append(update.Directories, update.Directory) {
			covered[update.Ecosystem+" "+directory]++
		}
		if update.Schedule.Interval == "" {
			t.Errorf("%s has no schedule", update.Ecosystem)
		}
	}
	want := map[string]bool{"github-actions /": true}
	for _, module := range modules(t) {
		want["gomod "+path.Join("/", module)] = true
	}
	if len(want) < 10 {
		t.Errorf("found only the modules %v", want)
	}
	for of := range want {
		if covered[of] != 1 {
			t.Errorf("dependabot looks at %s %d times", of, covered[of])
		}
	}
	for of := range covered {
		if !want[of] && !strings.HasSuffix(of, " ") {
			t.Errorf("dependabot looks at %s, which does not exist", of)
		}
	}
}

// modules returns the directories of the repository's Go modules.
func modules(t *testing.T) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (name == "bin" || name == "dist" || name == ".git") {
			return fs.SkipDir
		}
		if err == nil && e.Name() == "go.mod" {
			out = append(out, path.Dir(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
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
