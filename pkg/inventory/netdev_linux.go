package inventory

import (
	"regexp"
	"strconv"
	"strings"
)

const classNet = "class/net/"

// netdevNames returns the interfaces below a device's directory. Virtio devices have them one
// level deeper.
func (s *scan) netdevNames(dir, driver string) []string {
	if driver != "virtio-pci" {
		return s.names(dir + "net")
	}
	var out []string
	for _, name := range s.names(dir) {
		if strings.HasPrefix(name, "virtio") {
			out = append(out, s.names(dir+name+"/net")...)
		}
	}
	return out
}

// netdevs reads interfaces. If full is true, it leaves out representors of other functions,
// which a card in switchdev mode has in its own directory, and reads the interfaces' state.
// A VF has no representors in its directory, and its link has the state of its PF's.
func (s *scan) netdevs(names []string, full bool) []Netdev {
	var out []Netdev
	for _, name := range names {
		dir := classNet + name + "/"
		if full && representorPort.MatchString(s.value(dir+"phys_port_name")) {
			continue
		}
		n := Netdev{Name: name, MAC: s.links[name].PermanentMAC, AltNames: s.links[name].AltNames, Type: linkType(s.value(dir + "type"))}
		if n.MAC == "" {
			n.MAC = s.value(dir + "address")
		}
		if full {
			s.state(&n, dir)
		}
		out = append(out, n)
	}
	return out
}

// state reads whether the interface is up and its link carries traffic. With some drivers the
// state is always unknown.
func (s *scan) state(n *Netdev, dir string) {
	const iffUp = 1
	flags, err := strconv.ParseUint(s.value(dir+"flags"), 0, 32)
	n.Up = err == nil && flags&iffUp != 0
	switch s.value(dir + "operstate") {
	case "":
	case "up", "unknown":
		n.Link = LinkUp
	default:
		n.Link = LinkDown
	}
}

// linkType returns the name that netlink's libraries have for the kernel's number of a link
// type (ARPHRD_*).
func linkType(number string) string {
	switch number {
	case "1":
		return LinkEther
	case "32":
		return LinkInfiniband
	}
	return number
}

var (
	// representorPort matches the port name of a representor: pf0vf3, pf0sf88, or with
	// another host's number in front.
	representorPort = regexp.MustCompile(`^(?:c\d+)?pf\d+(vf|sf)(\d+)$`)
	// uplinkPort matches the port name of a card's physical port.
	uplinkPort = regexp.MustCompile(`^p\d+(s\d+)?$`)
)

// uplinkOf returns the interface that gives a PF its name: that of its physical port in
// switchdev mode, and otherwise the first.
func uplinkOf(s *scan, netdevs []Netdev) *Netdev {
	if len(netdevs) == 0 {
		return nil
	}
	if len(netdevs) > 1 {
		for i := range netdevs {
			if uplinkPort.MatchString(s.value(classNet + netdevs[i].Name + "/phys_port_name")) {
				return &netdevs[i]
			}
		}
	}
	return &netdevs[0]
}

// findUplinks collects the interfaces that the host's default routes use, and those below a
// bond, bridge or VLAN. The device plugin ignores the latter, but a node that loses a bond's
// member may lose its connection as well.
func (s *scan) findUplinks() {
	for name, l := range s.links {
		if l.DefaultRoute {
			s.addUplink(name)
		}
	}
}

// addUplink adds an interface and those below it.
func (s *scan) addUplink(name string) {
	if s.uplinks[name] {
		return
	}
	s.uplinks[name] = true
	for _, entry := range s.names(classNet + name) {
		if lower, ok := strings.CutPrefix(entry, "lower_"); ok {
			s.addUplink(lower)
		}
	}
}

// addRepresentors finds the representors of functions on cards in switchdev mode: the
// interfaces with the card's switch ID and the function's number in the port name.
func (s *scan) addRepresentors() {
	type port struct{ switchID, kind, number string }
	places := map[port]int{}
	ids := map[string]string{}
	for i := range s.out {
		f := &s.out[i]
		if f.PF == nil || f.PF.Name == "" || f.EswitchMode != eswitchSwitchdev {
			continue
		}
		id, ok := ids[f.PF.Name]
		if !ok {
			id = s.value(classNet + f.PF.Name + "/phys_switch_id")
			ids[f.PF.Name] = id
		}
		if id != "" {
			places[port{id, string(f.Kind), strconv.Itoa(f.Index)}] = i
		}
	}
	if len(places) == 0 {
		return
	}
	for _, name := range s.names(classNet) {
		m := representorPort.FindStringSubmatch(s.value(classNet + name + "/phys_port_name"))
		if m == nil {
			continue
		}
		if i, ok := places[port{s.value(classNet + name + "/phys_switch_id"), m[1], m[2]}]; ok {
			s.out[i].Representor = name
		}
	}
}
