package probehost

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// interfaces tells the host's: names by netlink, which knows the other names,
// too, and what they are by sysfs.
func (l *look) interfaces() {
	links, err := l.Links()
	l.failed("asking the kernel for its interfaces", err)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		l.report.Interfaces = append(l.report.Interfaces, probe.Interface{
			Name: name, Kind: l.kind(name), AltNames: links[name].AltNames, DefaultRoute: links[name].DefaultRoute,
		})
	}
}

// kind is what sysfs has an interface for.
func (l *look) kind(name string) string {
	dir := filepath.Join(l.Root, "sys/class/net", name)
	for _, sign := range []struct{ file, kind string }{
		{"device", probe.Physical}, {"bridge", probe.Bridge}, {"bonding", probe.Bond},
	} {
		if _, err := os.Lstat(filepath.Join(dir, sign.file)); err == nil {
			return sign.kind
		}
	}
	if event, err := os.ReadFile(filepath.Join(dir, "uevent")); err == nil && strings.Contains(string(event), "DEVTYPE=vlan") {
		return probe.VLAN
	}
	return probe.Virtual
}
