package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/conformance/compare"
)

// Observe describes a network namespace as this suite compares it, with all that
// the kernel lets it set.
func Observe(path string) (compare.State, error) { return observe(path, observeSettings) }

// observe describes a network namespace: its interfaces, addresses, routes and rules, and
// whatever more adds. It leaves out what the kernel makes by itself if that follows from
// the rest or is random.
func observe(path string, more ...func(compare.State) error) (compare.State, error) {
	state := compare.State{}
	err := inNetNS(path, func() error {
		for _, look := range append(more, observeLinks, observeRoutes, observeRules) {
			if err := look(state); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("observing %s: %w", path, err)
	}
	return state, nil
}

func observeLinks(state compare.State) error {
	list, err := netlink.LinkList()
	if err != nil {
		return err
	}
	links, addresses := map[string]any{}, map[string]any{}
	for _, link := range list {
		a := link.Attrs()
		links[a.Name] = map[string]any{
			"type": link.Type(), "mac": a.HardwareAddr.String(), "mtu": fmt.Sprint(a.MTU), "txqlen": fmt.Sprint(a.TxQLen),
			"up": fmt.Sprint(a.RawFlags&unix.IFF_UP != 0), "promisc": fmt.Sprint(a.Promisc), "allmulti": fmt.Sprint(a.Allmulti),
			"mode": mode(link),
		}
		found, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, address := range found {
			if address.IP.IsLinkLocalUnicast() && address.IP.To4() == nil {
				continue // made from the MAC
			}
			addresses[a.Name+" "+address.IPNet.String()] = netlink.Scope(address.Scope).String()
		}
	}
	state["links"], state["addresses"] = links, addresses
	return nil
}

func mode(link netlink.Link) string {
	switch l := link.(type) {
	case *netlink.Macvlan:
		return fmt.Sprint(l.Mode)
	case *netlink.Macvtap:
		return fmt.Sprint(l.Mode)
	case *netlink.IPVlan:
		return fmt.Sprint(l.Mode)
	}
	return ""
}

// observeRoutes adds the routes of all tables but the kernel's own, which follows from the
// addresses.
func observeRoutes(state compare.State) error {
	list, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	routes := map[string]any{}
	for _, r := range list {
		if r.Table == unix.RT_TABLE_LOCAL || r.Dst != nil && r.Dst.IP.IsLinkLocalUnicast() || r.Dst != nil && r.Dst.IP.IsMulticast() {
			continue
		}
		device := ""
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			device = link.Attrs().Name
		}
		key := fmt.Sprintf("table %d: %v dev %s metric %d", r.Table, r.Dst, device, r.Priority)
		routes[key] = fmt.Sprintf("via %v from %v scope %s protocol %s type %d mtu %d", r.Gw, r.Src, r.Scope, r.Protocol, r.Type, r.MTU)
	}
	state["routes"] = routes
	return nil
}

func observeRules(state compare.State) error {
	list, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	var rules []any
	for _, r := range list {
		rules = append(rules, r.String()+fmt.Sprintf(" table %d", r.Table))
	}
	state["rules"] = rules
	return nil
}

// observeSettings adds all sysctls of this namespace.
func observeSettings(state compare.State) error {
	const root = "/proc/sys/net"
	settings := map[string]any{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		content, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // some can only be written, or have no value yet
		}
		settings[name] = strings.Join(strings.Fields(string(content)), " ")
		return nil
	})
	state["sysctl"] = settings
	return err
}

// left describes the pod's namespace and the node after DEL, without sysctls, which no
// plugin resets.
func (w *world) left(s sandbox, a attacher) (compare.State, error) {
	state, err := observe(s.netns)
	if err != nil {
		return nil, err
	}
	links, err := w.node.added()
	if err != nil {
		return nil, err
	}
	// It depends on the runtime whether the default network and its bridge were made before
	// the pod was refused.
	state["nodeLinks"] = slices.DeleteFunc(links, func(name string) bool { return name == defaultBridge })
	files := filesIn(hostLocalDir, deviceInfoDir)
	dirs, ids := a.own()
	ids = append(ids, s.id, string(s.pod.UID))
	for path, content := range filesIn(dirs...) {
		// Pending DELs of earlier cases are there, too.
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(path+content.(string), id) }) {
			files[path] = content
		}
	}
	state["files"] = files
	return state, nil
}

// filesIn reads all files below some directories. It leaves out host-local's file with the
// last address, which is not an address in use.
func filesIn(dirs ...string) map[string]any {
	files := map[string]any{}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "lock" || strings.HasPrefix(entry.Name(), "last_reserved_ip.") {
				return nil //nolint:nilerr // the directory does not exist
			}
			content, err := os.ReadFile(path)
			files[path] = string(content)
			if err != nil {
				files[path] = err.Error()
			}
			return nil
		})
	}
	return files
}
