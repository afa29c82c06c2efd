package nodecmd

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// interfaces lists the host's interfaces: their names by netlink, which has alternative
// names, and their kinds by sysfs.
func (l *inspection) interfaces() {
	links, err := l.Links()
	l.failed("asking the kernel for its interfaces", err)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		l.report.Interfaces = append(l.report.Interfaces, probe.Interface{
			Name: name, Kind: l.kind(name), AltNames: links[name].AltNames, DefaultRoute: links[name].DefaultRoute,
		})
	}
}

// kind returns the kind of an interface by sysfs.
func (l *inspection) kind(name string) string {
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
