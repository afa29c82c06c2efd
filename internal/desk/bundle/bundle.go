package bundle

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

// Folder is the folder of the archive's files.
const Folder = "nadra-bundle/"

// Head describes what the archive is about.
type Head struct {
	Client string `json:"client"`
	Server string `json:"server,omitempty"`
	// Namespace is the namespace of pods and claims. Empty means all.
	Namespace string `json:"namespace,omitempty"`
	// Since is the age of the oldest lines of logs.
	Since string `json:"since"`
	// Nodes are the nodes that were read. Empty means all.
	Nodes []string `json:"nodes,omitempty"`
	// HiddenAddresses: pseudonyms replace addresses.
	HiddenAddresses bool `json:"hiddenAddresses"`
}

// Index describes the archive. Within a version, fields are added, and never renamed or
// removed.
type Index struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Head       `json:",inline"`
	// Files are sorted by name.
	Files []File `json:"files"`
	// Redacted counts what is left out, by its kind.
	Redacted map[string]int `json:"redacted"`
	// Gaps lists what could not be read.
	Gaps []Gap `json:"gaps"`
}

// File is a file of the archive.
type File struct {
	Name string `json:"name"`
	// What describes it for people.
	What string `json:"what"`
	Size int    `json:"size"`
	// Redacted counts what is left out of it, by its kind.
	Redacted map[string]int `json:"redacted,omitempty"`
	// Cut describes what was left out, because the file was too large.
	Cut string `json:"cut,omitempty"`

	text string
}

// Gap is something that the archive lacks, because it could not be read.
type Gap struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	// Remedy is the right or the flag to read it.
	Remedy string `json:"remedy,omitempty"`
}

// Bundle collects the contents of an archive.
type Bundle struct {
	Head  Head
	files []File
	gaps  []Gap
}

// AddValue adds a value of a kind of fields.yaml as JSON, for example a report.
func (b *Bundle) AddValue(name, what, kind string, value any) error {
	r := newReducer()
	tree, err := r.value(kind, value)
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return b.addTree(r, name, what, tree)
}

// addObjects adds Kubernetes objects, as a list in which each has its kind.
func (b *Bundle) addObjects(name, what string, objects []map[string]any) error {
	r := newReducer()
	items := []any{}
	for _, o := range objects {
		kind, _ := o["kind"].(string)
		head := map[string]any{"apiVersion": o["apiVersion"], "kind": kind}
		delete(o, "apiVersion")
		delete(o, "kind")
		tree, err := r.value(kind, o)
		if err != nil {
			return fmt.Errorf("adding %s: %w", name, err)
		}
		maps.Copy(head, tree.(map[string]any))
		items = append(items, head)
	}
	return b.addTree(r, name, what, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// addTree adds a reduced tree as JSON.
func (b *Bundle) addTree(r *reducer, name, what string, tree any) error {
	text, err := document.JSON(tree, "  ")
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	b.files = append(b.files, File{Name: name, What: what, Redacted: r.counts, text: string(text)})
	return nil
}

// addLog adds a log of nadra's own programs. cut describes what was left out.
func (b *Bundle) addLog(name, what, text, cut string) {
	r := newReducer()
	b.files = append(b.files, File{Name: name, What: what, Cut: cut, text: r.log(text), Redacted: r.counts})
}

// addMetrics adds metrics of nadra's own programs. cut describes what was left out.
func (b *Bundle) addMetrics(name, what, text, cut string) {
	r := newReducer()
	b.files = append(b.files, File{Name: name, What: what, Cut: cut, text: r.metrics(text), Redacted: r.counts})
}

// addGap records what could not be read. Of the reason, only known phrases are kept, because errors
// may quote values.
func (b *Bundle) addGap(what, reason, remedy string) {
	b.gaps = append(b.gaps, Gap{What: what, Reason: newReducer().message(reason), Remedy: remedy})
}

// Write writes the archive and returns its index.
func (b *Bundle) Write(w io.Writer) (*Index, error) {
	b.finish()
	index := &Index{APIVersion: APIVersion, Kind: Kind, Head: b.Head, Files: b.files, Redacted: map[string]int{}, Gaps: b.gaps}
	for i := range b.files {
		b.files[i].Size = len(b.files[i].text)
		for kind, n := range b.files[i].Redacted {
			index.Redacted[kind] += n
		}
	}
	text, err := document.JSON(index, "  ")
	if err != nil {
		return nil, err
	}
	members := append([]File{{Name: "README.md", text: readme(index)}, {Name: "index.json", text: string(text)}}, b.files...)
	if err := writeArchive(w, members); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return index, nil
}

// finish sorts the contents, and hides addresses if Head says so.
func (b *Bundle) finish() {
	slices.SortFunc(b.files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(b.gaps, func(x, y Gap) int { return strings.Compare(x.What+x.Reason, y.What+y.Reason) })
	b.gaps = append([]Gap{}, slices.Compact(b.gaps)...)
	if !b.Head.HiddenAddresses {
		return
	}
	p := newPseudonyms()
	for i := range b.files {
		f := &b.files[i]
		f.Name, f.What, f.text = p.hide(f.Name), p.hide(f.What), p.hide(f.text)
	}
	for i := range b.gaps {
		g := &b.gaps[i]
		g.What, g.Reason = p.hide(g.What), p.hide(g.Reason)
	}
	for i := range b.Head.Nodes {
		b.Head.Nodes[i] = p.hide(b.Head.Nodes[i])
	}
}

// writeArchive writes the archive. Its files have no time and no owner, so that the same
// content gives the same archive.
func writeArchive(w io.Writer, members []File) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range members {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: Folder + f.Name, Mode: 0o600, Size: int64(len(f.text))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// readme returns the archive's README.md.
func readme(index *Index) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# nadra: a bundle for support\n")
	line("Written by kubectl nadra bundle %s, from Kubernetes %s. It has only listed fields and known phrases of", index.Client, index.Server)
	line("messages: what is left out shows as %s…] with its type and length. Secrets are never read.\n", Mark)
	line("## Files\n")
	for _, f := range index.Files {
		line("- %s: %s%s%s", f.Name, f.What, prefixed("; left out: ", counts(f.Redacted)), prefixed("; ", f.Cut))
	}
	line("\n## Left out\n\n%s%s", counts(index.Redacted), map[bool]string{true: "nothing"}[len(index.Redacted) == 0])
	if index.HiddenAddresses {
		line("\nPseudonyms replace IP and MAC addresses, the same one for the same address.")
	}
	line("\n## What could not be read\n")
	for _, g := range index.Gaps {
		line("- %s: %s%s", g.What, g.Reason, prefixed("; needs ", g.Remedy))
	}
	if len(index.Gaps) == 0 {
		line("Nothing.")
	}
	return out.String()
}

// prefixed puts a prefix before a text, unless the text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// counts formats counts by kind.
func counts(of map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d %s", of[kind], kind))
	}
	return strings.Join(out, ", ")
}
