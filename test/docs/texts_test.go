package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the code says to users is explained in a section of troubleshooting.md.
// All sentences of the first files must be; those of the others may be.
var explained = []struct {
	section     string
	files       []string
	furthermore []string
}{
	{
		"FailedPrepareNetwork",
		[]string{
			"pkg/driver/internal/publish/view.go", "pkg/driver/internal/publish/host.go", "pkg/driver/internal/confdir/confdir.go", "pkg/driver/internal/hwdevices/deviceforpod.go", "pkg/driver/deviceinuse.go",
			"pkg/driver/prepare.go", "pkg/driver/planner.go", "pkg/driver/claims.go", "pkg/driver/extendedresources.go", "pkg/driver/kubeletplugin.go", "pkg/driver/containerclaims.go",
			"pkg/attachment/claim.go", "pkg/attachment/hardware.go", "pkg/attachment/isolation.go", "pkg/attachment/plan.go",
		},
		[]string{"pkg/attachment/*.go", "pkg/api/v1alpha1/*.go", "pkg/driver/*.go", "pkg/driver/internal/*/*.go"},
	},
	{
		"FailedAttachNetwork",
		[]string{"pkg/driver/internal/attach/attacher.go", "pkg/driver/attachjob.go", "pkg/driver/attachjobs.go", "pkg/driver/detach.go", "pkg/driver/createcontainer.go", "pkg/driver/internal/podnet/routes.go", "pkg/driver/internal/attach/defaultroute.go"},
		[]string{"pkg/driver/internal/*/*.go", "pkg/cniexec/*.go", "internal/podns/*.go"},
	},
	{"FailedReleaseNetwork", nil, []string{"pkg/driver/*.go", "pkg/driver/internal/*/*.go", "pkg/cniexec/*.go"}},
	{"FailedNoClaim", []string{"pkg/driver/unclaimed.go"}, nil},
	{"FailedCheckNetwork", []string{"pkg/driver/checkreport.go"}, []string{"pkg/driver/check.go", "pkg/driver/internal/claimstatus/*.go"}},
	{"NetworkUnavailable", nil, []string{"pkg/driver/report.go", "pkg/driver/internal/publish/*.go", "pkg/driver/internal/cniresult/*.go"}},
	{"ResourcePoolRefused", []string{"pkg/driver/internal/hwdevices/poolsources.go"}, []string{"pkg/pools/*.go"}},
	{"NetworksReleased", nil, []string{"pkg/driver/report.go", "pkg/driver/owner.go"}},
	{"The words of the gate", []string{"internal/gate/gate.go"}, []string{"cmd/nadra-gate/*.go"}},
	{
		"About pods",
		[]string{"pkg/admission/owner.go", "pkg/admission/pod.go", "pkg/admission/refusal.go", "internal/webhook/templates.go"},
		[]string{"internal/webhook/*.go", "pkg/attachment/*.go"},
	},
	{"About claims, templates and classes", []string{"pkg/admission/validate.go", "pkg/attachment/isolation.go"}, []string{"internal/webhook/*.go", "pkg/api/v1alpha1/*.go"}},
}

// sentences are the texts of the files with more than a word; what is known at
// run time only is a verb of fmt, or an ellipsis.
func sentences(t *testing.T, patterns []string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no such file (%v)", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sentencesOf(file)...)
		}
	}
	return all
}

func sentencesOf(file *ast.File) []string {
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && logs(call) {
			return false
		}
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok := fold(e)
		if !ok {
			return true
		}
		if strings.Contains(strings.TrimSpace(text), " ") {
			all = append(all, text)
		}
		return false
	})
	return all
}

// logs tells a call of the logger, whose texts are for the log only.
func logs(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (method.Sel.Name == "Info" || method.Sel.Name == "Error" && len(call.Args) > 1)
}

// fold is the text of a literal, or of a sum with one.
func fold(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return fold(e.X)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0)), true
	case *ast.BinaryExpr:
		left, leftIs := fold(e.X)
		right, rightIs := fold(e.Y)
		if e.Op != token.ADD || !leftIs && !rightIs {
			return "", false
		}
		if !leftIs {
			left = "…"
		}
		if !rightIs {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

var (
	verb    = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)
	word    = regexp.MustCompile(`\p{L}+`)
	wrapper = regexp.MustCompile(`%[wv]$`) // it says where something happened, and ends in what
)

// isSaid tells whether a text says something by itself: it has three words, and
// is not only the place of an error that comes behind it.
func isSaid(text string) bool {
	return !wrapper.MatchString(text) && len(word.FindAllString(verb.ReplaceAllString(text, "…"), -1)) >= 3
}

// covers tells whether a piece of a page is part of a text of the code.
func covers(code, text string) bool {
	var parts []string
	for _, part := range strings.Split(code, "…") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(strings.Join(parts, ".*")).MatchString(verb.ReplaceAllString(text, "…"))
}

// explains are the pieces of code of a section: all that are long enough to be
// somebody's words, and those of the first column of its tables.
func (s section) explains() (all, first []string) {
	for _, line := range strings.Split(s.text, "\n") {
		cells := strings.Split(line, "|")
		for i, cell := range cells {
			for _, code := range inlineCode.FindAllString(cell, -1) {
				code = strings.Trim(code, "`")
				if strings.Count(code, " ") >= 1 {
					all = append(all, code)
				}
				if i == 1 && strings.HasPrefix(line, "|") {
					first = append(first, code)
				}
			}
		}
	}
	return all, first
}

// What nadra refuses with is in troubleshooting.md, and nothing that it does not say.
func TestTextsAreExplained(t *testing.T) {
	sections := pages(t)[troubleshooting].sections
	for _, e := range explained {
		i := slices.IndexFunc(sections, func(s section) bool { return s.heading == e.section })
		if i < 0 {
			t.Errorf("%s has no section %q", troubleshooting, e.section)
			continue
		}
		all, first := sections[i].explains()
		required := sentences(t, e.files)
		for _, text := range required {
			if isSaid(text) && !slices.ContainsFunc(all, func(code string) bool { return covers(code, text) }) {
				t.Errorf("%s, %q: has nothing about %q", troubleshooting, e.section, text)
			}
		}
		known := slices.Concat(required, sentences(t, e.furthermore))
		for _, code := range first {
			if !slices.ContainsFunc(known, func(text string) bool { return covers(code, text) }) {
				t.Errorf("%s, %q: nothing says %q (any more)", troubleshooting, e.section, code)
			}
		}
	}
}

func TestSentences(t *testing.T) {
	const source = `package p
func f() {
	log.Info("this is for the log")
	log.Error(err, "and so is this")
	a := fmt.Errorf("network %s is " + "of %q: " + hint, n, o)
	b := err.Error() + "two words"
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := sentencesOf(file)
	if !slices.Equal(got, []string{"network %s is of %q: …", "…two words"}) {
		t.Fatalf("got %q", got)
	}
	for text, want := range map[string]bool{got[0]: true, got[1]: false, "reading the pod: %w": false} {
		if isSaid(text) != want {
			t.Errorf("%q says something: %v", text, !want)
		}
	}
	for _, c := range []struct {
		code string
		want bool
	}{
		{"network … is of …:", true},
		{"network … of", true},
		{"is of", true},
		{"network … of the", false},
		{"of network", false},
	} {
		if covers(c.code, got[0]) != c.want {
			t.Errorf("%q covers %q: %v", c.code, got[0], !c.want)
		}
	}
}
