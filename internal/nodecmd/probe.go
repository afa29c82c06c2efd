package nodecmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// ProbeOptions has the paths to inspect. All of them are the host's.
type ProbeOptions struct {
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
	ProbeOptions
	host
	report *probe.Report
}

// Probe inspects the host. What cannot be read is in the report's Errors.
func Probe(ctx context.Context, o ProbeOptions) *probe.Report {
	if o.Links == nil {
		o.Links = inventory.HostKernel().Links
	}
	l := inspection{ProbeOptions: o, host: host{root: o.Root}, report: &probe.Report{APIVersion: probe.APIVersion, Kind: probe.Kind}}
	l.report.Kernel = l.text("/proc/sys/kernel/osrelease")
	l.report.BootID = l.text("/proc/sys/kernel/random/boot_id")
	l.report.NRI = l.nri(ctx)
	l.cdi()
	l.plugins()
	l.configurations()
	l.interfaces()
	l.dhcp()
	l.report.Errors = l.errors
	return l.report
}

// read reads a file of the host that has at most limit bytes.
func (l *inspection) read(path string, limit int) ([]byte, error) {
	inside, err := l.inside(path)
	if err != nil {
		return nil, err
	}
	return atomicfile.Read(inside, limit)
}

// text reads a file of the host with one line.
func (l *inspection) text(path string) string {
	content, err := l.read(path, maxConf)
	l.failed("reading "+path, err)
	return strings.TrimSpace(string(content))
}

// maxMounts limits the bytes of the host's mounts, of which each pod has some.
const maxMounts = 64 << 20

// cdi inspects the directories of CDI specs.
func (l *inspection) cdi() {
	mounts, err := l.read("/proc/1/mountinfo", maxMounts)
	l.failed("reading the host's mounts", err)
	for _, dir := range l.CDIDirs {
		_, found := l.list(dir)
		inside, err := l.inside(dir)
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
	inside, err := l.inside(dhcpSocket)
	if err == nil {
		_, err = os.Stat(inside)
	}
	l.report.DHCP = err == nil
}
