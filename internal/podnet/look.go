package podnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// Address is an address of an interface in a namespace.
type Address struct {
	Interface string
	IP        netip.Addr
	// Tentative is true while the kernel looks for another host that has the address, and Duplicate if it has
	// found one.
	Tentative, Duplicate bool
}

// Link is an interface in a namespace.
type Link struct{ Name, MAC string }

// State is what a network namespace has at one time.
type State struct {
	Namespace
	// ByIndex are its interfaces by their number, which an interface keeps under another name.
	ByIndex   map[int]Link
	Addresses []Address
}

// Look describes the namespace at a path with the addresses in it.
func (p *Reader) Look(path string) (State, error) { return p.look(path, true) }

// Lacks returns what of the interfaces that plugins have made, with their addresses, the namespace does not have,
// and which of the addresses another host has.
func (s State) Lacks(made map[string]cniexec.Interface) []string {
	var out []string
	for name, m := range made {
		if !slices.Contains(s.Links, name) {
			out = append(out, fmt.Sprintf("interface %s is gone", name))
			continue
		}
		for _, ip := range m.IPs {
			i := slices.IndexFunc(s.Addresses, func(a Address) bool { return a.Interface == name && a.IP == ip })
			switch {
			case i < 0:
				out = append(out, fmt.Sprintf("address %s of interface %s is gone", ip, name))
			case s.Addresses[i].Duplicate:
				out = append(out, fmt.Sprintf("address %s of interface %s is another host's, too", ip, name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Index returns the number of an interface that a plugin has made, or 0. If the pod has renamed it already, it is the
// only one with its MAC address under a name that no plugin has made.
func (s State) Index(name, mac string, made []string) int {
	var others []int
	for index, l := range s.ByIndex {
		if l.Name == name {
			return index
		}
		if mac != "" && strings.EqualFold(l.MAC, mac) && !slices.Contains(made, l.Name) {
			others = append(others, index)
		}
	}
	if len(others) != 1 {
		return 0
	}
	return others[0]
}

// Renamed reports whether the interface with a number has another name than this.
func (s State) Renamed(index int, name string) bool {
	l, found := s.ByIndex[index]
	return found && l.Name != name
}

// maxAddresses limits the addresses that a look keeps.
const maxAddresses = 10_000

// addresses lists the addresses in the namespace that a socket is in, of interfaces with these indices.
func addresses(socket *nl.NetlinkSocket, links map[int]Link) ([]Address, error) {
	var out []Address
	err := dump(socket, unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(netlink.FAMILY_ALL), func(m []byte) error {
		if len(out) == maxAddresses {
			return reason.Errorf(reason.LimitExceeded, "there are more than %d", maxAddresses)
		}
		one, err := addressOf(m, links)
		out = append(out, one)
		return err
	})
	return out, err
}

// addressOf reads the kernel's message of an address.
func addressOf(m []byte, links map[int]Link) (Address, error) {
	header := nl.DeserializeIfAddrmsg(m)
	attrs, err := nl.ParseRouteAttr(m[header.Len():])
	if err != nil {
		return Address{}, err
	}
	one, flags := Address{Interface: links[int(header.Index)].Name}, uint32(header.Flags)
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_LOCAL: // of a point-to-point link, IFA_ADDRESS is the peer's
			one.IP, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_ADDRESS:
			if !one.IP.IsValid() {
				one.IP, _ = netip.AddrFromSlice(a.Value)
			}
		case unix.IFA_FLAGS:
			flags = binary.NativeEndian.Uint32(a.Value)
		}
	}
	one.Tentative, one.Duplicate = flags&unix.IFA_F_TENTATIVE != 0, flags&unix.IFA_F_DADFAILED != 0
	return one, nil
}
