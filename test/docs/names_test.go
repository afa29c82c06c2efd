package docs

import (
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources returns, by path, the files below some folders that have one of these endings.
func sources(t *testing.T, folders []string, endings ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(root), folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) }) {
				return err
			}
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			all[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// proofs lists the pages, or the folders of pages, with tables whose rows name the tests that prove them.
var proofs = []string{"docs/cni/", "docs/develop/lessons.md", "docs/develop/promises.md", "docs/reference/compatibility.md", "docs/security/checks-of-the-code.md", "docs/security/mistakes-and-releases.md", "docs/security/tenants.md", "docs/security/threat-model.md"}

// testName matches the name of a test. The first group matches if a command runs the test.
var testName = regexp.MustCompile(`((?:-run |RUN=)['^]*)?\b((?:Test|Fuzz)[A-Z]\w+)`)

// TestTestsAreProof checks that pages name tests only in the rows of such a table, and in commands. In other places a
// page names the lane: which tests show something changes more often than the page.
func TestTestsAreProof(t *testing.T) {
	for _, p := range pages(t) {
		proves := slices.ContainsFunc(proofs, func(of string) bool { return strings.HasPrefix(p.path, of) })
		for _, line := range strings.Split(p.text, "\n") {
			for _, m := range testName.FindAllStringSubmatch(line, -1) {
				if m[1] == "" && (!proves || !strings.HasPrefix(line, "|")) {
					t.Errorf("%s names %s outside of a table of proofs: name the lane, or nothing", p.path, m[2])
				}
			}
		}
	}
}

// TestEachAttackIsPlayed checks that each row about an attempt, a mistake or a promise names a test that plays it.
func TestEachAttackIsPlayed(t *testing.T) {
	played := 0
	for _, name := range []string{"docs/security/threat-model.md", "docs/security/tenants.md", "docs/security/mistakes-and-releases.md", "docs/develop/promises.md"} {
		proof := false
		for line := range strings.SplitSeq(pages(t)[name].text, "\n") {
			switch {
			case !strings.HasPrefix(line, "|"):
				proof = false
			case strings.HasSuffix(line, "| Test |"):
				proof = true
			case proof && !strings.HasPrefix(line, "| --- "):
				played++
				cells := strings.Split(strings.Trim(line, "| "), "|")
				if len(cells) != 3 || !strings.HasPrefix(cells[1], " **nothing**") && !testName.MatchString(cells[2]) {
					t.Errorf("%s: no test plays %s", name, line)
				}
			}
		}
	}
	if played < 90 {
		t.Errorf("found only %d attempts and promises", played)
	}
}

// TestEachPromiseIsPlayed checks that a row with a test has each sentence of SECURITY.md about what counts as a vulnerability.
func TestEachPromiseIsPlayed(t *testing.T) {
	_, counts, _ := strings.Cut(pages(t)["SECURITY.md"].text, "## What counts")
	counts, _, _ = strings.Cut(counts, "\n## ")
	promises := regexp.MustCompile(`(?m)^\* (.*)$`).FindAllStringSubmatch(counts, -1)
	for _, m := range promises {
		promise := regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		_, row, found := strings.Cut(pages(t)["docs/security/checks-of-the-code.md"].text, "\n| "+promise+" |")
		row, _, _ = strings.Cut(row, "\n")
		if !found || !testName.MatchString(row) {
			t.Errorf("docs/security/checks-of-the-code.md names no test for: %s", promise)
		}
	}
	if len(promises) < 5 {
		t.Errorf("SECURITY.md has only %d promises", len(promises))
	}
}

// TestNamedTests checks that tests that a page names exist.
func TestNamedTests(t *testing.T) {
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, text := range sources(t, []string{"build", "cmd", "internal", "pkg", "test"}, "_test.go") {
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			there[m[1]] = true
		}
	}
	named := 0
	for _, p := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(p.text, -1) {
			named++
			if !there[m[2]] {
				t.Errorf("%s names %s, which does not exist", p.path, m[2])
			}
		}
	}
	if named < 100 {
		t.Errorf("the pages name only %d tests", named)
	}
}

var projectPath = regexp.MustCompile(`^(build|cmd|docs|examples|internal|manifests|pkg|test)/[\w./-]+$`)

// TestNamedFiles checks that files and folders of the project that a page names exist.
func TestNamedFiles(t *testing.T) {
	named := 0
	for _, p := range pages(t) {
		for _, code := range p.codes() {
			if !projectPath.MatchString(code) {
				continue
			}
			named++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(code))); err != nil {
				t.Errorf("%s names %s, which does not exist", p.path, code)
			}
		}
	}
	if named < 50 {
		t.Errorf("the pages name only %d files", named)
	}
}

// TestNamedCases checks that cases of the conformance suite that a page names exist:
// `plugins/macvlan-bridge`.
func TestNamedCases(t *testing.T) {
	groups, there := map[string]bool{}, map[string]bool{}
	name := regexp.MustCompile(`(?m)^- (?:\{)?name: ([\w.-]+)`)
	for file, text := range sources(t, []string{"test/conformance/testdata/cases"}, ".yaml") {
		group := strings.TrimSuffix(filepath.Base(file), ".yaml")
		groups[group] = true
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			there[group+"/"+m[1]] = true
		}
	}
	if len(there) < 100 {
		t.Fatalf("found only %d cases", len(there))
	}
	named := 0
	for _, p := range pages(t) {
		for _, code := range p.codes() {
			group, rest, ok := strings.Cut(code, "/")
			if !ok || !groups[group] || strings.ContainsAny(rest, "/* ") {
				continue
			}
			named++
			if !there[code] {
				t.Errorf("%s names the case %s, which does not exist", p.path, code)
			}
		}
	}
	if named < 20 {
		t.Errorf("the pages name only %d cases", named)
	}
}

// othersFlags lists flags of other programs on the pages whose flags are checked.
var othersFlags = []string{
	"--concurrent-resourceclaim-syncs",     // kube-controller-manager
	"--emulated-version",                   // kube-apiserver
	"--enable-dynamic-resource-allocation", // cluster-autoscaler
	"--ignore-dra-requests",                // Karpenter
	"--etcd-compaction-interval",           // kube-apiserver
	"--etcd-servers-overrides",             // kube-apiserver
	"--kube-api-burst",                     // kube-controller-manager
	"--kube-api-qps",                       // kube-controller-manager
	"--max-mutating-requests-inflight",     // kube-apiserver
	"--max-requests-inflight",              // kube-apiserver
	"--quota-backend-bytes",                // etcd
	"--root-dir",                           // kubelet
	"--set",                                // helm
}

// TestNamedFlags checks that flags on the pages for operators are flags of nadra's
// programs.
func TestNamedFlags(t *testing.T) {
	all := strings.Builder{}
	for _, text := range sources(t, []string{"cmd", "internal/desk/cli", "internal/controller"}, ".go") {
		all.WriteString(text)
	}
	flag := regexp.MustCompile(`^(--[a-z][a-z-]+)(?:[= ].*)?$`)
	named := 0
	for _, name := range []string{
		"README.md", "docs/install/distributions.md", "docs/install/runtimes.md", "docs/concepts/faq.md", "docs/reference/sizing.md", "docs/reference/support.md", "docs/security/threat-model.md", "docs/security/tenants.md",
		"docs/troubleshooting/README.md", "docs/troubleshooting/events.md", "docs/troubleshooting/pods.md", "docs/migrate/what-stays.md",
	} {
		p, ok := pages(t)[name]
		if !ok {
			t.Errorf("%s does not exist", name)
		}
		for _, code := range p.codes() {
			m := flag.FindStringSubmatch(code)
			if m == nil || slices.Contains(othersFlags, m[1]) {
				continue
			}
			named++
			if !strings.Contains(all.String(), `"`+strings.TrimPrefix(m[1], "--")+`"`) {
				t.Errorf("%s names the flag %s, which no program has", p.path, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("the pages name only %d flags", named)
	}
}

// TestDemoIsShown checks that the page about the demo has the titles that the demo prints.
func TestDemoIsShown(t *testing.T) {
	page := read(t, "docs/quickstart/new-cluster.md")
	titles := regexp.MustCompile(`title\("([^"]+)"\)`).FindAllStringSubmatch(read(t, "test/demo/main.go"), -1)
	for _, m := range titles {
		if !strings.Contains(page, "# "+m[1]+"\n") {
			t.Errorf("docs/quickstart/new-cluster.md lacks the title %q", m[1])
		}
	}
	if len(titles) < 8 {
		t.Errorf("the demo has only %d titles", len(titles))
	}
}

// TestPicturesAreOfTheirText checks that each picture has the labels of the text that it is made of.
func TestPicturesAreOfTheirText(t *testing.T) {
	texts, err := filepath.Glob(filepath.Join(root, "docs", "pictures", "*.dot"))
	if err != nil || len(texts) == 0 {
		t.Fatalf("found no texts of pictures: %v", err)
	}
	label := regexp.MustCompile(`label="([^"]*)"`)
	for _, name := range texts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := os.ReadFile(strings.TrimSuffix(name, ".dot") + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		shown := html.UnescapeString(string(picture))
		for _, m := range label.FindAllStringSubmatch(string(text), -1) {
			for _, line := range strings.Split(m[1], `\n`) {
				if !strings.Contains(shown, strings.TrimSpace(line)) {
					t.Errorf("the picture of %s lacks %q: run make pictures", name, line)
				}
			}
		}
	}
}
