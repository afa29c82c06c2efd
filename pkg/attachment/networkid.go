package attachment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// NetworkID identifies a network in the attributes of devices: a letter that names the attribute, and a
// mark, from a hash of the network's name. Devices list the marks of their networks in few attributes,
// because the scheduler's time grows with the number of attributes (docs/decisions/0020). Of 10,000
// networks two have the same ID with a probability of 1:118; then a node that offers one of them gets pods of
// both, and Prepare refuses those of the other.
type NetworkID string

const (
	idAttributePrefix = "n_"
	// idLetters is the number of letters, and so of attributes that list marks.
	idLetters = 20
	// markLength is the length of a mark. Marks follow each other without a separator: only their first
	// character is a capital letter, so that none is found across two others.
	markLength = 5
	capitals   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// markRest has the other characters of marks. None has a meaning in JSON, YAML or CEL strings, or in
	// Helm's templates.
	markRest = "abcdefghijklmnopqrstuvwxyz0123456789!#%()*+,-./:;=?@[]^_|~"
	// marksPerAttribute is how many marks a string attribute holds.
	marksPerAttribute = resourceapi.DeviceAttributeMaxValueLength / markLength
)

// NetworkIDOf returns the ID of a network.
func NetworkIDOf(r NetworkRef) NetworkID {
	sum := sha256.Sum256([]byte(r.String()))
	pick := func(i int, from string) byte { return from[int(binary.BigEndian.Uint16(sum[2*i:]))%len(from)] }
	id := []byte{'a' + byte(binary.BigEndian.Uint16(sum[0:])%idLetters), pick(1, capitals)}
	for i := 2; len(id) < 1+markLength; i++ {
		id = append(id, pick(i, markRest))
	}
	return NetworkID(id)
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
	if len(marks) >= marksPerAttribute*markLength {
		return false
	}
	marks += string(id[1:])
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
			for mark := range slices.Chunk([]byte(*attribute.StringValue), markLength) {
				if !yield(NetworkID(letter + string(mark))) {
					return
				}
			}
		}
	}
}
