package report

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/browser"
)

// corpus returns the report of the folder with public manifests that $NADRA_CORPUS names.
func corpus(t testing.TB) *Report {
	t.Helper()
	root := os.Getenv("NADRA_CORPUS")
	if root == "" {
		t.Skip("set NADRA_CORPUS to a folder of manifests to report on all of them")
	}
	var files []translate.File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files = append(files, translate.File{Name: name, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return Build(Input{Source: "corpus/open", Files: len(files), Result: translate.Convert(translate.Input{Files: files})})
}

func TestCorpus(t *testing.T) {
	r := corpus(t)
	checkData(t, r)
	checkSARIF(t, schema(t), written(t, "sarif", r))
	checkPage(t, written(t, "html", r))
	checkLines(t, "table", "", written(t, "table", r))
	for _, format := range Scan.Names() {
		name := "corpus." + format
		keep(t, name, []byte(written(t, format, r)))
	}
	c := browser.New(t)
	address := pageFile(t, r)
	for _, s := range screens {
		c.Use(s)
		c.Visit(address)
		if got := browser.Is[float64](c, "document.documentElement.scrollWidth"); got > float64(s.Width) {
			t.Errorf("%s: the page is %v wide", s.Name, got)
		}
		keepParts(t, c, "corpus-"+s.Name)
	}
	checkSilence(t, c)
}
