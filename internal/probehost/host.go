// Package probehost looks at the node that it runs on and changes nothing: the edge
// of package probe.
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

// Options say where to look. All paths are the host's.
type Options struct {
	// Root is the host's root directory as the process sees it.
	Root string
	// NRISocket is the NRI socket of the container runtime.
	NRISocket string
	CDIDirs   []string
	BinDirs   []string
	// ConfDirs have CNI configurations, the runtime's directory first.
	ConfDirs []string
	// Links are the host's interfaces; nil asks the kernel.
	Links func() (map[string]inventory.Link, error)
}

// look is one look at a host.
type look struct {
	Options
	report *probe.Report
}

// Look looks. What cannot be read is in the report's Errors.
func Look(ctx context.Context, o Options) *probe.Report {
	if o.Links == nil {
		o.Links = inventory.HostKernel().Links
	}
	l := look{Options: o, report: &probe.Report{APIVersion: probe.APIVersion, Kind: probe.Kind}}
	l.report.Kernel = l.text("/proc/sys/kernel/osrelease")
	l.report.BootID = l.text("/proc/sys/kernel/random/boot_id")
	l.report.NRI = l.nri(ctx)
	l.cdi()
	l.plugins()
	l.configurations()
	l.interfaces()
	l.hostLocal()
	l.dhcp()
	return l.report
}

// failed takes note of what could not be read. What is not there is no failure.
func (l *look) failed(doing string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.report.Errors = append(l.report.Errors, fmt.Sprintf("%s: %v", doing, err))
	}
}

// path is a path of the host as the process sees it. Symbolic links in it are
// the host's.
func (l *look) path(path string) (string, error) {
	return securejoin.SecureJoin(l.Root, path)
}

func (l *look) read(path string) ([]byte, error) {
	inside, err := l.path(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(inside)
}

func (l *look) text(path string) string {
	content, err := l.read(path)
	l.failed("reading "+path, err)
	return strings.TrimSpace(string(content))
}

// list lists a directory, sorted by name; found says whether it is there.
func (l *look) list(path string) (entries []fs.DirEntry, found bool) {
	inside, err := l.path(path)
	if err == nil {
		entries, err = os.ReadDir(inside)
	}
	l.failed("listing "+path, err)
	return entries, err == nil
}

func (l *look) cdi() {
	mounts, err := l.read("/proc/1/mountinfo")
	l.failed("reading the host's mounts", err)
	for _, dir := range l.CDIDirs {
		_, found := l.list(dir)
		inside, err := l.path(dir)
		if err != nil {
			inside = dir
		}
		// The mounts are told by their places in the host, without links.
		place := filepath.Join("/", strings.TrimPrefix(inside, filepath.Clean(l.Root)))
		l.report.CDI = append(l.report.CDI, probe.Dir{Path: dir, Found: found, ReadOnly: probe.ReadOnly(mounts, place)})
	}
}

// dhcpSocket is where the plugin dhcp expects its daemon.
const dhcpSocket = "/run/cni/dhcp.sock"

func (l *look) dhcp() {
	inside, err := l.path(dhcpSocket)
	if err == nil {
		_, err = os.Stat(inside)
	}
	l.report.DHCP = err == nil
}
