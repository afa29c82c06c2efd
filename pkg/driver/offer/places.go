package offer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Link describes one interface of a node.
type Link struct {
	// Name is the interface's name, also if it is found by another one.
	Name string
	// PCI has the standard attributes of the interface's PCI function, none for a virtual
	// interface.
	PCI PCIAttributes
}

// PCIAttributes are the standard attributes of a PCI function.
type PCIAttributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// place is where networks are attached: an interface of the host with a PCI function, with which claims
// may align other devices, or the node. Interfaces without a function, such as VLANs, are nothing to
// align with, and networks whose NADs do not ask for it need no alignment. They have no places of their own:
// the scheduler's time grows with the devices of a node (docs/decisions/0020), and nodes with different
// cards could not share a slice.
type place struct {
	// name begins the names of the place's devices.
	name string
	// master is the interface, or "" for the node.
	master string
	pci    PCIAttributes
}

const nodePlace = "node"

// placeOf returns the place of a network. The attributes of a network with several masters are those of
// all of them.
func (d *Definition) placeOf(links map[string]Link) place {
	p := place{name: nodePlace}
	if !d.align {
		return p
	}
	var masters []string
	for _, plugin := range d.Network.Plugins {
		link := links[plugin.Master]
		if len(link.PCI) == 0 || slices.Contains(masters, link.Name) {
			continue
		}
		masters = append(masters, link.Name)
		if p.pci == nil {
			p.master, p.pci = link.Name, link.PCI
		} else {
			p.pci = maps.Clone(p.pci)
			maps.Copy(p.pci, link.PCI)
		}
	}
	if len(masters) > 0 {
		p.name = placeName(strings.Join(masters, "-"))
	}
	return p
}

// plainName matches the names of interfaces that need no hash in the name of a device.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// placeName makes a name for devices of an interface's name. It is followed by numbers, so that any name
// that has a hyphen gets a hash with a letter.
func placeName(master string) string {
	const maxPlace = 40
	if plainName.MatchString(master) && len(master) <= maxPlace && master != nodePlace {
		return master
	}
	sum := sha256.Sum256([]byte(master))
	readable := attachment.Label(master)
	return strings.TrimLeft(readable[:min(len(readable), maxPlace)]+"-x", "-") + hex.EncodeToString(sum[:4])
}

// Belongs reports whether a device is one of those whose names begin with a place's name, or a copy of the
// device of that name.
func Belongs(device, name string) bool {
	numbers, found := strings.CutPrefix(device, name)
	return found && (numbers == "" || numbers[0] == '-' && strings.Trim(numbers, "0123456789-") == "")
}

const (
	// groupSize is the number of networks for which a place has one device, on average. Few of their
	// attributes overflow.
	groupSize = 200
	// groupsInSlice and limitedInSlice are how many groups and devices of their own a slice has, on average
	// for the latter. A slice with so many has less than 8 KiB, which is what a change of one network writes.
	groupsInSlice, limitedInSlice = 3, 20
)

// arrange makes the devices of networks, divided into slices. The same networks give the same slices on
// every node, and networks that come or go change few of them. A network with fewer addresses than the node
// takes pods has a device of its own, whose capacity keeps the scheduler from allocating more.
func arrange(a Arrangement) [][]*device {
	of, places := map[string][]*Definition{}, map[string]place{}
	var limited []*Definition
	for _, n := range a.Networks {
		if n.isLimited(a.Pods) {
			limited = append(limited, n)
			continue
		}
		p := n.placeOf(a.Links)
		places[p.name] = p
		of[p.name] = append(of[p.name], n)
	}
	var shared [][]*device
	for _, name := range slices.Sorted(maps.Keys(of)) {
		shared = append(shared, group(places[name], of[name])...)
	}
	own := make([][]*device, groups(len(limited), limitedInSlice))
	for _, n := range limited {
		d := newDevice(n.ownDevice(), n.placeOf(a.Links))
		d.add(n.ID)
		d.addresses = n.addresses
		g := n.groupOf(len(own))
		own[g] = append(own[g], d)
	}
	for _, devices := range own {
		slices.SortFunc(devices, byName)
	}
	if len(shared) <= groupsInSlice && len(limited) < limitedInSlice/2 {
		return [][]*device{slices.Concat(slices.Concat(shared...), slices.Concat(own...))}
	}
	var out [][]*device
	for chunk := range slices.Chunk(shared, groupsInSlice) {
		devices := slices.Concat(chunk...)
		slices.SortFunc(devices, byName)
		out = append(out, devices)
	}
	return append(out, own...)
}

// groups returns the number of groups of a size.
func groups(n, size int) int { return (n + size - 1) / size }

// byID sorts networks by their IDs.
func byID(a, b *Definition) int {
	if order := cmp.Compare(a.ID, b.ID); order != 0 {
		return order
	}
	return cmp.Compare(a.Network.Ref.String(), b.Network.Ref.String())
}

// group makes the devices of a place from its networks, sorted by ID: one for each group, and further ones
// for networks whose attribute is full. Their names sort behind those of the first ones: the scheduler
// examines them last.
func group(p place, networks []*Definition) [][]*device {
	grouped := make([][]*device, groups(len(networks), groupSize))
	for _, n := range networks {
		g := n.groupOf(len(grouped))
		if !slices.ContainsFunc(grouped[g], func(d *device) bool { return d.add(n.ID) }) {
			more := newDevice(fmt.Sprintf("%s-%d-%d", p.name, len(grouped[g]), g), p)
			more.add(n.ID)
			grouped[g] = append(grouped[g], more)
		}
	}
	return slices.DeleteFunc(grouped, func(devices []*device) bool { return len(devices) == 0 })
}

// Bases returns what the names of a network's devices begin with: on the node, and at the place of its master,
// where earlier versions had each network, and where it was if its NAD has lost the annotation.
func (d *Definition) Bases(links map[string]Link, pods int64) []string {
	if d.isLimited(pods) {
		return []string{d.ownDevice()}
	}
	aligned := *d
	aligned.align = true
	return []string{d.placeOf(links).name, aligned.placeOf(links).name}
}

// shareable reports whether like nodes that take this number of pods can share the network's devices. What is
// a node's own cannot be shared: a configuration in one of its files, addresses that may run out, and a card
// with which claims align other devices.
func (d *Definition) shareable(pods int64) bool {
	return d.config != "" && !d.align && !d.isLimited(pods)
}

// ownDevice returns the name of the network's device if it has one of its own.
func (d *Definition) ownDevice() string { return attachment.DeviceName(d.Network.Ref) }

// isLimited reports whether host-local may run out of the network's addresses before the node takes no
// more pods.
func (d *Definition) isLimited(pods int64) bool { return d.addresses != nil && *d.addresses < pods }

// groupOf returns the network's group of n.
func (d *Definition) groupOf(n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.ID)) // never fails
	return int(h.Sum32() % uint32(n))
}
