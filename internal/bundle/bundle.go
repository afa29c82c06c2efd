package bundle

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Folder is where all of the archive is.
const Folder = "nadra-bundle/"

// Head says what the archive is of.
type Head struct {
	Client string `json:"client"`
	Server string `json:"server,omitempty"`
	// Namespace is that of pods and claims; empty means all.
	Namespace string `json:"namespace,omitempty"`
	// Since is how far back logs go.
	Since string `json:"since"`
	// Nodes are those that were looked at; empty means all.
	Nodes []string `json:"nodes,omitempty"`
	// HiddenAddresses says that pseudonyms stand for addresses.
	HiddenAddresses bool `json:"hiddenAddresses"`
}

// Index is what the archive says of itself. Fields are added within a version,
// never renamed or removed.
type Index struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Head       `json:",inline"`
	// Files are sorted by name.
	Files []File `json:"files"`
	// Redacted is how often something was taken out, by what it was.
	Redacted map[string]int `json:"redacted"`
	// Gaps are what could not be read.
	Gaps []Gap `json:"gaps"`
}

// File is one of the archive.
type File struct {
	Name string `json:"name"`
	// What it is, for people.
	What string `json:"what"`
	Size int    `json:"size"`
	// Redacted is how often something was taken out of it.
	Redacted map[string]int `json:"redacted,omitempty"`
	// Cut says what it lacks, since it was too large.
	Cut string `json:"cut,omitempty"`

	text string
}

// Gap is something that is not in the archive, and should be.
type Gap struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	// Remedy is the right, or the flag, that would give it.
	Remedy string `json:"remedy,omitempty"`
}

// Bundle is an archive in the making.
type Bundle struct {
	Head  Head
	files []File
	gaps  []Gap
}

// AddValue adds what can be JSON, e.g. a report.
func (b *Bundle) AddValue(name, what string, value any) error {
	r := NewRedactor()
	tree, err := r.Value(value)
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return b.addTree(r, name, what, tree)
}

// AddObjects adds objects of Kubernetes, as a list in which each has its kind.
// Of pods and of nadra's own workloads only what may go out is kept.
func (b *Bundle) AddObjects(name, what string, objects []map[string]any) error {
	r := NewRedactor()
	items := []any{}
	for _, o := range objects {
		tree, err := r.Value(r.reduce(o))
		if err != nil {
			return fmt.Errorf("adding %s: %w", name, err)
		}
		items = append(items, tree)
	}
	return b.addTree(r, name, what, object{"apiVersion": "v1", "kind": "List", "items": items})
}

func (b *Bundle) addTree(r *Redactor, name, what string, tree any) error {
	text, err := encode(tree, "  ")
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	b.files = append(b.files, File{Name: name, What: what, Redacted: r.Counts, text: string(text)})
	return nil
}

// AddText adds a log, or anything that is no JSON; cut says what it lacks.
func (b *Bundle) AddText(name, what, text, cut string) {
	r := NewRedactor()
	text = r.Text(strings.ToValidUTF8(text, "�"))
	b.files = append(b.files, File{Name: name, What: what, Redacted: r.Counts, Cut: cut, text: text})
}

// AddGap notes what could not be read. Errors may quote what they are about.
func (b *Bundle) AddGap(what, reason, remedy string) {
	b.gaps = append(b.gaps, Gap{What: what, Reason: NewRedactor().Text(reason), Remedy: remedy})
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
	text, err := encode(index, "  ")
	if err != nil {
		return nil, err
	}
	members := append([]File{{Name: "README.md", text: readme(index)}, {Name: "index.json", text: string(text)}}, b.files...)
	if err := writeArchive(w, members); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return index, nil
}

// finish sorts, and hides addresses if they are to be hidden.
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

// writeArchive gives no file a time or an owner: the same content is the same
// archive.
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

func readme(index *Index) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# nadra: a bundle for support\n")
	line("Made by kubectl nadra bundle %s of Kubernetes %s. Look through it before you send it: credentials are", index.Client, index.Server)
	line("found by their names and shapes, and %s stands for them. Secrets are never read.\n", Mark)
	line("## Files\n")
	for _, f := range index.Files {
		line("- %s: %s%s%s", f.Name, f.What, prefixed("; taken out: ", counts(f.Redacted)), prefixed("; ", f.Cut))
	}
	line("\n## Taken out\n\n%s%s", counts(index.Redacted), map[bool]string{true: "nothing"}[len(index.Redacted) == 0])
	if index.HiddenAddresses {
		line("\nPseudonyms stand for IP and MAC addresses, the same one for the same address.")
	}
	line("\n## What could not be read\n")
	for _, g := range index.Gaps {
		line("- %s: %s%s", g.What, g.Reason, prefixed("; needs ", g.Remedy))
	}
	if len(index.Gaps) == 0 {
		line("Everything could be.")
	}
	return out.String()
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func counts(of map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d %s", of[kind], kind))
	}
	return strings.Join(out, ", ")
}
