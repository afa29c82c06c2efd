package attachment

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// NetworkID identifies a network in the attributes of devices: a letter that names the attribute, and a
// mark, from a hash of the network's name. Devices list the marks of their networks in few attributes,
// because the scheduler's time grows with the number of attributes, so marks are short: two of 10,000
// networks have the same ID with a probability of 1:118, and a name whose ID is that of another network can
// be found within minutes. Of networks with equal IDs only the earliest has that ID, and the others have
// long ones (LaterOfEqualID), so that no node lists two networks with one ID (docs/decisions/0020).
type NetworkID string

const (
	idAttributePrefix = "n_"
	// idLetters is the number of letters, and so of attributes that list marks.
	idLetters = 20
	// markLength is the length of a mark. Marks follow each other without a separator: only their first
	// character is a capital letter, so that none is found across two others.
	markLength = 5
	capitals   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// longMarkLength is the length of the mark of a long ID, which has no capital letter. Nobody finds two
	// names with the same one: there are 2^92.
	longMarkLength = 15
	// markRest has the other characters of marks. None has a meaning in JSON, YAML or CEL strings, or in
	// Helm's templates.
	markRest = "abcdefghijklmnopqrstuvwxyz0123456789!#%()*+,-./:;=?@[]^_|~"
)

// NetworkIDOf returns the ID of a network, if no earlier network has the same.
func NetworkIDOf(r NetworkRef) NetworkID { return networkID(r, capitals, markLength) }

// LongNetworkIDOf returns the ID of a network if an earlier network has the ID that NetworkIDOf returns.
func LongNetworkIDOf(r NetworkRef) NetworkID { return networkID(r, markRest, longMarkLength) }

// networkID returns an ID with a mark of a length, whose first character is one of first.
func networkID(r NetworkRef, first string, length int) NetworkID {
	sum := sha256.Sum256([]byte(r.String()))
	pick := func(i int, from string) byte { return from[int(binary.BigEndian.Uint16(sum[2*i:]))%len(from)] }
	id := []byte{'a' + byte(binary.BigEndian.Uint16(sum[0:])%idLetters), pick(1, first)}
	for i := 2; len(id) < 1+length; i++ {
		id = append(id, pick(i, markRest))
	}
	return NetworkID(id)
}

// LaterOfEqualID returns those NADs that have a long ID, because an earlier NAD has the same ID, each with the
// earliest. The NADs' UIDs decide between NADs of the same second. The driver, the controller and the command
// line all decide by this function.
func LaterOfEqualID(nads []*nadv1.NetworkAttachmentDefinition) map[NetworkRef]NetworkRef {
	earliest := make(map[NetworkID]*nadv1.NetworkAttachmentDefinition, len(nads))
	var equal []*nadv1.NetworkAttachmentDefinition
	for _, nad := range nads {
		id := NetworkIDOf(RefOf(nad))
		first, found := earliest[id]
		if found {
			equal = append(equal, first, nad)
		}
		if !found || byAge(nad, first) < 0 {
			earliest[id] = nad
		}
	}
	out := map[NetworkRef]NetworkRef{}
	for _, nad := range equal {
		if first := earliest[NetworkIDOf(RefOf(nad))]; first != nad {
			out[RefOf(nad)] = RefOf(first)
		}
	}
	return out
}

// byAge sorts NADs by creation. Manifests have neither times nor UIDs, so that their names decide.
func byAge(a, b *nadv1.NetworkAttachmentDefinition) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID), cmp.Compare(RefOf(a).String(), RefOf(b).String()))
}

// Attribute returns the name of the attribute that lists the ID's mark, in the driver's domain: n_ and the
// ID's letter.
func (id NetworkID) Attribute() resourceapi.QualifiedName {
	return resourceapi.QualifiedName(idAttributePrefix + string(id[:1]))
}

// Selector returns the CEL expression for devices on which a network can be attached. Devices of other
// drivers may have attributes of the same names, so it compares the driver, too.
func (id NetworkID) Selector() string {
	return fmt.Sprintf(`device.driver == %[1]q && %[2]q in device.attributes[%[1]q] && device.attributes[%[1]q].%[2]s.contains(%[3]q)`,
		v1alpha1.DriverName, id.Attribute(), id[1:])
}

// AddTo adds the ID to the attributes of a device. It returns false, and changes nothing, if the
// attribute has no room.
func (id NetworkID) AddTo(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
	name := id.Attribute()
	marks := ptr.Deref(attributes[name].StringValue, "")
	marks += string(id[1:])
	if len(marks) > resourceapi.DeviceAttributeMaxValueLength {
		return false
	}
	attributes[name] = resourceapi.DeviceAttribute{StringValue: &marks}
	return true
}

// NetworkIDs returns the IDs that a device's attributes list.
func NetworkIDs(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) iter.Seq[NetworkID] {
	return func(yield func(NetworkID) bool) {
		for name, attribute := range attributes {
			letter, found := strings.CutPrefix(string(name), idAttributePrefix)
			if !found || len(letter) != 1 || attribute.StringValue == nil {
				continue
			}
			for marks := *attribute.StringValue; marks != ""; {
				length := longMarkLength
				if strings.ContainsRune(capitals, rune(marks[0])) {
					length = markLength
				}
				mark := marks[:min(length, len(marks))]
				if !yield(NetworkID(letter + mark)) {
					return
				}
				marks = marks[len(mark):]
			}
		}
	}
}
