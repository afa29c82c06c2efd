package vm

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// archive is an initramfs: a cpio archive of the form "newc".
type archive struct {
	buffer  bytes.Buffer
	number  int
	folders map[string]bool
}

// The kinds of entries, as in stat.
const (
	kindFolder = 0o040000
	kindFile   = 0o100000
	kindDevice = 0o020000
)

// folder adds a folder and those above it.
func (a *archive) folder(name string) {
	name = strings.Trim(name, "/")
	if name == "" || name == "." || a.folders[name] {
		return
	}
	if a.folders == nil {
		a.folders = map[string]bool{}
	}
	a.folder(path.Dir(name))
	a.folders[name] = true
	a.entry(name, kindFolder|0o755, nil, 0, 0)
}

// file adds a program or file.
func (a *archive) file(name string, content []byte) {
	name = strings.Trim(name, "/")
	a.folder(path.Dir(name))
	a.entry(name, kindFile|0o755, content, 0, 0)
}

// device adds a character device.
func (a *archive) device(name string, major, minor int) {
	name = strings.Trim(name, "/")
	a.folder(path.Dir(name))
	a.entry(name, kindDevice|0o600, nil, major, minor)
}

// bytes closes the archive.
func (a *archive) bytes() []byte {
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	return a.buffer.Bytes()
}

func (a *archive) entry(name string, mode int, content []byte, major, minor int) {
	a.number++
	fields := []int{
		a.number, mode, 0, 0, // owner and group
		1, 0, // links, time
		len(content), 0, 0, major, minor, // the numbers of its file system's device, and its own
		len(name) + 1, 0, // no checksum
	}
	a.buffer.WriteString("070701")
	for _, field := range fields {
		fmt.Fprintf(&a.buffer, "%08X", field)
	}
	a.buffer.WriteString(name + "\x00")
	a.pad()
	a.buffer.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.buffer.Len()%4 != 0 {
		a.buffer.WriteByte(0)
	}
}
