package report

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

func reports() map[string]*Report {
	known := small(false)
	known.Baseline = Build(small(false))
	known.Baseline.Findings = known.Baseline.Findings[2:]
	return map[string]*Report{
		"files": Build(small(false)), "cluster": Build(small(true)), "baseline": Build(known),
		"empty": Build(Input{Source: "manifests/", Files: 3, Result: translate.Result{Kinds: map[string]int{"ConfigMap": 4, "Deployment": 2}}}),
	}
}

func TestGolden(t *testing.T) {
	for name, r := range reports() {
		for _, format := range Scan.Names() {
			golden.Check(t, filepath.Join("testdata", name+"."+format), trimPage(written(t, format, r)))
		}
	}
}

// trimPage removes style and script, which have their own files, from the page.
func trimPage(text string) string {
	for _, asset := range []struct{ text, name string }{
		{htmlStyle, "style"}, {htmlScript, "script"}, {escaped(digest(htmlStyle)), "digest of the style"}, {escaped(digest(htmlScript)), "digest of the script"},
	} {
		text = strings.Replace(text, asset.text, "(the "+asset.name+")", 1)
	}
	return text
}

// escaped returns a digest as in an attribute.
func escaped(digest string) string { return strings.ReplaceAll(digest, "+", "&#43;") }

func TestUnknownFormat(t *testing.T) {
	err := Scan.Write(&strings.Builder{}, "xml", Build(Input{}))
	if err == nil || !strings.Contains(err.Error(), `"xml"`) || !strings.Contains(err.Error(), strings.Join(Scan.Names(), ", ")) {
		t.Errorf("the error is %v", err)
	}
}

// full takes some bytes and then no more.
type full struct{ left int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteTellsErrors checks that Write returns the errors of the writer.
func TestWriteTellsErrors(t *testing.T) {
	r := Build(large(300))
	for _, format := range Scan.Names() {
		for _, left := range []int{0, 5000} {
			if err := Scan.Write(&full{left}, format, r); !errors.Is(err, errFull) {
				t.Errorf("%s after %d bytes: the error is %v", format, left, err)
			}
		}
	}
}

// TestPageLinks checks that every link within the page has a target, also with a baseline.
func TestPageLinks(t *testing.T) {
	for name, r := range reports() {
		text := written(t, "html", r)
		for _, part := range strings.Split(text, `href="#`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			if !strings.Contains(id, "=") && !strings.Contains(text, `id="`+id+`"`) {
				t.Errorf("%s: nothing is at #%s", name, id)
			}
		}
	}
}
