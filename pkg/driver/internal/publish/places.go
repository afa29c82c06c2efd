package publish

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

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// place is where networks are attached: an interface of the host with a PCI function, with which claims
// may align other devices, or the node. Interfaces without a function, such as VLANs, are nothing to
// align with. They are no places of their own, because the scheduler's time grows with the devices of a
// node (docs/decisions/0020).
type place struct {
	// name begins the names of the place's devices.
	name string
	// master is the interface, or "" for the node.
	master string
	pci    pciAttributes
}

const nodePlace = "node"

// placeOf returns the place of a network. The attributes of a network with several masters are those of
// all of them.
func placeOf(n attachment.Network, links map[string]Link) place {
	p := place{name: nodePlace}
	var masters []string
	for _, plugin := range n.Plugins {
		link := links[plugin.Master]
		if len(link.pci) == 0 || slices.Contains(masters, link.name) {
			continue
		}
		masters = append(masters, link.name)
		if p.pci == nil {
			p.master, p.pci = link.name, link.pci
		} else {
			p.pci = maps.Clone(p.pci)
			maps.Copy(p.pci, link.pci)
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
	readable := strings.Trim(strings.Map(attachment.LabelRune, strings.ToLower(master)), "-")
	return strings.TrimLeft(readable[:min(len(readable), maxPlace)]+"-x", "-") + hex.EncodeToString(sum[:4])
}

// belongs reports whether a device is one of those whose names begin with a place's name, or a copy of the
// device of that name.
func belongs(device, name string) bool {
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
func arrange(a arrangement) [][]*device {
	of, places := map[string][]*definition{}, map[string]place{}
	var limited []*definition
	for _, n := range a.networks {
		if n.isLimited(a.pods) {
			limited = append(limited, n)
			continue
		}
		p := placeOf(n.network, a.links)
		places[p.name] = p
		of[p.name] = append(of[p.name], n)
	}
	var shared [][]*device
	for _, name := range slices.Sorted(maps.Keys(of)) {
		shared = append(shared, group(places[name], of[name])...)
	}
	own := make([][]*device, groups(len(limited), limitedInSlice))
	for _, n := range limited {
		d := newDevice(n.ownDevice(), placeOf(n.network, a.links))
		d.add(n.id)
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
func byID(a, b *definition) int {
	if order := cmp.Compare(a.id, b.id); order != 0 {
		return order
	}
	return cmp.Compare(a.network.Ref.String(), b.network.Ref.String())
}

// group makes the devices of a place from its networks, sorted by ID: one for each group, and further ones
// for networks whose attribute is full. Their names sort behind those of the first ones: the scheduler
// examines them last.
func group(p place, networks []*definition) [][]*device {
	grouped := make([][]*device, groups(len(networks), groupSize))
	for _, n := range networks {
		g := n.groupOf(len(grouped))
		if !slices.ContainsFunc(grouped[g], func(d *device) bool { return d.add(n.id) }) {
			more := newDevice(fmt.Sprintf("%s-%d-%d", p.name, len(grouped[g]), g), p)
			more.add(n.id)
			grouped[g] = append(grouped[g], more)
		}
	}
	return slices.DeleteFunc(grouped, func(devices []*device) bool { return len(devices) == 0 })
}

// baseOf returns what the names of a network's devices begin with.
func (d *definition) baseOf(links map[string]Link, pods int64) string {
	if d.isLimited(pods) {
		return d.ownDevice()
	}
	return placeOf(d.network, links).name
}

// ownDevice returns the name of the network's device if it has one of its own.
func (d *definition) ownDevice() string { return attachment.DeviceName(d.network.Ref) }

// isLimited reports whether host-local may run out of the network's addresses before the node takes no
// more pods.
func (d *definition) isLimited(pods int64) bool { return d.addresses != nil && *d.addresses < pods }

// groupOf returns the network's group of n.
func (d *definition) groupOf(n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.id)) // never fails
	return int(h.Sum32() % uint32(n))
}
