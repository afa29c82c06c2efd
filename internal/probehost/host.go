// Package probehost makes the reports of package probe on a node. It changes nothing there.
package probehost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Options has the paths to inspect. All of them are the host's.
type Options struct {
	// Root is the host's root directory in this process's mount namespace.
	Root string
	// NRISocket is the NRI socket of the container runtime.
	NRISocket string
	CDIDirs   []string
	BinDirs   []string
	// ConfDirs are the directories of CNI configurations, the runtime's first.
	ConfDirs []string
	// Links returns the host's interfaces. Nil means the kernel's.
	Links func() (map[string]inventory.Link, error)
}

// inspection makes a report about a host.
type inspection struct {
	Options
	report *probe.Report
}

// Look inspects the host. What cannot be read is in the report's Errors.
func Look(ctx context.Context, o Options) *probe.Report {
	if o.Links == nil {
		o.Links = inventory.HostKernel().Links
	}
	l := inspection{Options: o, report: &probe.Report{APIVersion: probe.APIVersion, Kind: probe.Kind}}
	l.report.Kernel = l.text("/proc/sys/kernel/osrelease")
	l.report.BootID = l.text("/proc/sys/kernel/random/boot_id")
	l.report.NRI = l.nri(ctx)
	l.cdi()
	l.plugins()
	l.configurations()
	l.interfaces()
	l.dhcp()
	return l.report
}

// failed records what could not be read. A missing file is not a failure.
func (l *inspection) failed(doing string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.report.Errors = append(l.report.Errors, fmt.Sprintf("%s: %v", doing, err))
	}
}

// path returns the path of a host's path in this process's mount namespace. It resolves
// symbolic links in the host's root.
func (l *inspection) path(path string) (string, error) {
	return securejoin.SecureJoin(l.Root, path)
}

// read reads a file of the host.
func (l *inspection) read(path string) ([]byte, error) {
	inside, err := l.path(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(inside)
}

// text reads a file of the host with one line.
func (l *inspection) text(path string) string {
	content, err := l.read(path)
	l.failed("reading "+path, err)
	return strings.TrimSpace(string(content))
}

// list lists a directory, sorted by name. found reports whether it could be listed.
func (l *inspection) list(path string) (entries []fs.DirEntry, found bool) {
	inside, err := l.path(path)
	if err == nil {
		entries, err = os.ReadDir(inside)
	}
	l.failed("listing "+path, err)
	return entries, err == nil
}

// cdi inspects the directories of CDI specs.
func (l *inspection) cdi() {
	mounts, err := l.read("/proc/1/mountinfo")
	l.failed("reading the host's mounts", err)
	for _, dir := range l.CDIDirs {
		_, found := l.list(dir)
		inside, err := l.path(dir)
		if err != nil {
			inside = dir
		}
		// mountinfo has the host's paths, without symbolic links.
		place := filepath.Join("/", strings.TrimPrefix(inside, filepath.Clean(l.Root)))
		l.report.CDI = append(l.report.CDI, probe.Dir{Path: dir, Found: found, ReadOnly: probe.ReadOnly(mounts, place)})
	}
}

// dhcpSocket is the socket of the plugin dhcp's daemon.
const dhcpSocket = "/run/cni/dhcp.sock"

// dhcp finds the daemon of the plugin dhcp.
func (l *inspection) dhcp() {
	inside, err := l.path(dhcpSocket)
	if err == nil {
		_, err = os.Stat(inside)
	}
	l.report.DHCP = err == nil
}
