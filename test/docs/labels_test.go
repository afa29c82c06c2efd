package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// internalNames lists texts of the code that have the form of a name and are no label, annotation or attribute: indexes of a
// cache, and the taint with which the driver asks the API server what it supports.
var internalNames = []string{"nadra.dev/class", "nadra.dev/id", "nadra.dev/template", "net.nadra.dev/asked"}

// TestNames checks that docs/reference/names.md has every label, annotation, taint, attribute and capacity of the
// code, and no name of nadra's that the code lacks.
func TestNames(t *testing.T) {
	page, found := pages(t)["docs/reference/names.md"]
	if !found {
		t.Fatal("docs/reference/names.md does not exist")
	}
	inCode := map[string]bool{}
	qualified := regexp.MustCompile(`"((?:net\.)?nadra\.dev/[a-z-]+|(?:k8s\.v1\.cni\.cncf\.io|k8s\.cni\.cncf\.io|v1\.multus-cni\.io)/[A-Za-z-]+)"`)
	plain := regexp.MustCompile(`(?m)^\s+(?:attr|Attr|cap|taint)[A-Z]\w*\s*= "([A-Za-z-]+)"|(?m)^const Attr\w+ = "([A-Za-z-]+)"`)
	for name, text := range sources(t, []string{"cmd", "internal", "pkg"}, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range qualified.FindAllStringSubmatch(text, -1) {
			inCode[m[1]] = true
		}
		if strings.HasPrefix(name, "pkg/driver/internal/") {
			for _, m := range plain.FindAllStringSubmatch(text, -1) {
				inCode[m[1]+m[2]] = true
			}
		}
	}
	listed := page.codes()
	for name := range inCode {
		if !slices.Contains(listed, name) && !slices.Contains(listed, "net.nadra.dev/"+name) && !slices.Contains(internalNames, name) && name != "net.nadra.dev/gate" {
			t.Errorf("docs/reference/names.md lacks %s", name)
		}
	}
	for _, code := range listed {
		if own := regexp.MustCompile(`^nadra\.dev/[a-z-]+$`); own.MatchString(code) && !inCode[code] {
			t.Errorf("docs/reference/names.md has %s, which the code lacks", code)
		}
	}
	if len(inCode) < 25 {
		t.Errorf("found only %d names in the code: %v", len(inCode), inCode)
	}
}
