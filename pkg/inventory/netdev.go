package inventory

import (
	"regexp"
	"strconv"
	"strings"
)

const classNet = "class/net/"

// netdevNames are the interfaces below a device's directory. Those of virtio
// have one level more.
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

// netdevs reads interfaces, without those that stand for other functions: a
// card in switchdev mode has them in its own directory. A VF has none of those,
// and the state of its link is its PF's.
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

// state reads whether the interface is set up and carries traffic. Some drivers
// leave the state at unknown for ever.
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

// linkType is the kernel's number of a kind of link (ARPHRD_*) as netlink's
// libraries name it.
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
	// representorPort is the port's name of an interface that stands for a
	// function: pf0vf3, pf0sf88, and with another host's number in front.
	representorPort = regexp.MustCompile(`^(?:c\d+)?pf\d+(vf|sf)(\d+)$`)
	// uplinkPort is that of the card's own way out.
	uplinkPort = regexp.MustCompile(`^p\d+(s\d+)?$`)
)

// uplinkOf is the interface by which a PF is known: in switchdev mode, the one
// of its physical port, and else the first.
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

// findUplinks collects the interfaces that the host's default routes go through,
// with those below a bond, bridge or VLAN. The device plugin looks at the
// interface alone; to give away a bond's member cuts the node off as well.
func (s *scan) findUplinks() {
	for name, l := range s.links {
		if l.DefaultRoute {
			s.addUplink(name)
		}
	}
}

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

// addRepresentors finds, for cards in switchdev mode, the interfaces that stand
// for their functions: those with the card's switch ID, and the function's
// number in the port's name.
func (s *scan) addRepresentors() {
	type port struct{ switchID, kind, number string }
	places := map[port]int{}
	ids := map[string]string{}
	for i := range s.out {
		f := &s.out[i]
		if f.PF == nil || f.PF.Name == "" || f.EswitchMode != EswitchSwitchdev {
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
