// Package flagtable compares tables of flags in docs/reference/flags.md with the flags of a program. It is for tests.
package flagtable

import (
	"flag"
	"fmt"
	"os"
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
	path := filepath.Join("..", "..", "docs", "reference", "flags.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- flags of "+program+" -->\n", "<!-- /flags of "+program+" -->\n"
	head, rest, begins := strings.Cut(string(page), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", path, begin, end)
	}
	golden.Check(t, path, head+begin+table(fs)+end+tail)
}

// table returns the table of flags.
func table(fs *flag.FlagSet) string {
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
