package nodecmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nadra-dev/nadra/internal/probe"
)

// plugins lists the directories of CNI plugins.
func (l *inspection) plugins() {
	for _, dir := range l.BinDirs {
		out := probe.BinDir{Path: dir}
		entries, found := l.list(dir)
		out.Found = found
		for _, e := range entries {
			switch mode := l.mode(filepath.Join(dir, e.Name())); {
			case !mode.IsRegular():
			case mode.Perm()&0o111 != 0:
				out.Plugins = append(out.Plugins, e.Name())
			default:
				out.NotExecutable = append(out.NotExecutable, e.Name())
			}
		}
		l.report.BinDirs = append(l.report.BinDirs, out)
	}
}

// mode returns the mode of the file at a path, or a directory's without a file.
func (l *inspection) mode(path string) fs.FileMode {
	inside, err := l.inside(path)
	if err != nil {
		return fs.ModeDir
	}
	info, err := os.Stat(inside)
	if err != nil {
		return fs.ModeDir
	}
	return info.Mode()
}

// maxConf limits the size of a configuration. Real ones have some KB.
const maxConf = 1 << 20

// configurations reads the CNI configurations in the order of the file names, of which a
// runtime uses the first.
func (l *inspection) configurations() {
	for _, dir := range l.ConfDirs {
		out := probe.ConfDir{Path: dir}
		entries, found := l.list(dir)
		out.Found = found
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			isConf := slices.Contains([]string{".conf", ".json", ".conflist"}, filepath.Ext(e.Name()))
			if !isConf || !l.mode(path).IsRegular() {
				out.Others = append(out.Others, e.Name())
				continue
			}
			out.Files = append(out.Files, l.configuration(path))
		}
		l.report.ConfDirs = append(l.report.ConfDirs, out)
	}
}

// configuration reads a CNI configuration.
func (l *inspection) configuration(path string) probe.ConfFile {
	name := filepath.Base(path)
	content, err := l.read(path, maxConf)
	if err != nil {
		return probe.ConfFile{File: name, Error: err.Error()}
	}
	return probe.ParseConf(name, content)
}
