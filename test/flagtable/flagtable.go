// Package flagtable compares tables of flags in docs/reference/flags.md with the flags of a program. It is for tests.
package flagtable

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/test/golden"
)

// Check compares the part of the page for one program, between its marks, with the program's flags. It leaves out
// those of klog except -v.
func Check(t *testing.T, program string, fs *flag.FlagSet) {
	t.Helper()
	CheckPart(t, "flags of "+program, Table(fs))
}

// CheckPart compares the part of the page between two marks.
func CheckPart(t *testing.T, mark, content string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "reference", "flags.md")
	golden.CheckPart(t, path, "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->\n", content)
}

// Table returns the table of flags.
func Table(fs *flag.FlagSet) string {
	logging := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logging)
	var out strings.Builder
	out.WriteString("\n| Flag | Value | Default | Meaning |\n| --- | --- | --- | --- |\n")
	fs.VisitAll(func(f *flag.Flag) {
		if logging.Lookup(f.Name) != nil && f.Name != "v" {
			return
		}
		kind, usage := flag.UnquoteUsage(f)
		if kind == "" {
			kind = "true or false"
		}
		value := ""
		if f.DefValue != "" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&out, "| `--%s` | %s | %s | %s |\n", f.Name, kind, value, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(usage))
	})
	return out.String() + "\n"
}
