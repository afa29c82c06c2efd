package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// entry is one file or symbolic link of the image.
type entry struct {
	dest   string // path in the image, without the leading slash
	source string // file to copy; empty for a link
	target string // what a link points to
}

// parseEntries parses arguments DEST=SRC and DEST=@TARGET and sorts them, so that their order
// does not change the image.
func parseEntries(args []string) ([]entry, error) {
	var entries []entry
	for _, arg := range args {
		dest, source, ok := strings.Cut(arg, "=")
		dest = strings.TrimPrefix(path.Clean("/"+dest), "/")
		if !ok || dest == "" || source == "" {
			return nil, fmt.Errorf("reading %q: write DEST=SRC or DEST=@TARGET", arg)
		}
		if target, link := strings.CutPrefix(source, "@"); link {
			entries = append(entries, entry{dest: dest, target: target})
		} else {
			entries = append(entries, entry{dest: dest, source: source})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.dest, b.dest) })
	for i := 1; i < len(entries); i++ {
		if entries[i].dest == entries[i-1].dest {
			return nil, fmt.Errorf("/%s occurs twice: leave one out", entries[i].dest)
		}
	}
	return entries, nil
}

// layer returns the uncompressed tar of the entries. Times and owners are zero, because they
// would make two builds of the same content differ.
func layer(entries []entry) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, dir := range directories(entries) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding directory /%s: %w", dir, err)
		}
	}
	for _, e := range entries {
		if err := e.add(archive); err != nil {
			return nil, fmt.Errorf("adding /%s: %w", e.dest, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// directories lists the directories that the entries need, parents first, and /tmp.
func directories(entries []entry) []string {
	dirs := []string{"tmp"}
	for _, e := range entries {
		for dir := path.Dir(e.dest); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (e entry) add(archive *tar.Writer) error {
	if e.source == "" {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.dest, Linkname: e.target, Mode: 0o777})
	}
	info, err := os.Stat(e.source)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", e.source)
	}
	content, err := os.ReadFile(e.source)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.dest, Mode: mode, Size: int64(len(content))}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}
