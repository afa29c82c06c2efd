package cli

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// others looks for networks in files of a folder that kubectl does not read, such as templates.
type others struct{ found, bytes int }

// Limits of others.
const (
	maxOthers     = 20       // files that are named
	maxOther      = 1 << 20  // bytes of each
	maxOtherTotal = 64 << 20 // bytes of all
)

// otherForms are extensions of files from which manifests are made, besides those of manifests with another
// extension after them.
var otherForms = []string{".tf", ".tftpl", ".hcl", ".jsonnet", ".libsonnet", ".cue", ".j2", ".jinja2", ".tmpl", ".gotmpl", ".tpl", ".erb", ".mustache", ".pkl", ".k"}

// nameNetworks reports whether a file that is not read mentions networks.
func (o *others) nameNetworks(root *os.Root, rel string, entry fs.DirEntry) bool {
	name := strings.ToLower(path.Base(rel)) + "."
	source := slices.ContainsFunc(slices.Concat(extensions, otherForms), func(e string) bool { return strings.Contains(name, e+".") })
	info, err := entry.Info()
	if !source && !slices.Contains(strings.Split(path.Dir(rel), "/"), "templates") || err != nil || !info.Mode().IsRegular() ||
		info.Size() > maxOther || o.bytes > maxOtherTotal || o.found >= maxOthers {
		return false
	}
	text, err := readInside(root, filepath.FromSlash(rel))
	if err != nil {
		return false
	}
	o.bytes += len(text)
	if !translate.MentionsNetworks(text) {
		return false
	}
	o.found++
	return true
}

// why returns why a file is not read.
func (o *others) why() string {
	if o.found >= maxOthers {
		return "it names networks, and its extension is not that of a manifest; further files like it are not named"
	}
	return "it names networks, and its extension is not that of a manifest: render it, or rename it, and read the result"
}
