package attachment

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// NetworkID identifies a network in the attributes of devices: a lower-case letter and six
// characters of base 32, from a hash of the network's name. Devices list the IDs of their networks in
// attributes, many in one attribute, because the scheduler's time grows with the number of attributes
// (docs/decisions/0020). Of 10,000 networks two have the same ID with a probability of 1:550; then a
// node that offers one of them gets pods of both, and Prepare refuses those of the other.
type NetworkID string

const (
	idAttributePrefix = "n_"
	// idLetters is the number of letters, and so of attributes that list IDs.
	idLetters = 26
	idLength  = 1 + 6
	// idsPerAttribute is how many IDs a string attribute holds: each has a space after it.
	idsPerAttribute = resourceapi.DeviceAttributeMaxValueLength / idLength
)

// NetworkIDOf returns the ID of a network.
func NetworkIDOf(r NetworkRef) NetworkID {
	sum := sha256.Sum256([]byte(r.String()))
	letter := 'a' + rune((uint32(sum[4])<<8|uint32(sum[5]))%idLetters)
	return NetworkID(letter) + NetworkID(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:4])[:idLength-1]))
}

// Attribute returns the name of the attribute that lists the ID, in the driver's domain: n_ and the
// ID's letter.
func (id NetworkID) Attribute() resourceapi.QualifiedName {
	return resourceapi.QualifiedName(idAttributePrefix + string(id[:1]))
}

// Selector returns the CEL expression for devices on which a network can be attached. Devices of other
// drivers may have attributes of the same names, so it compares the driver, too.
func (id NetworkID) Selector() string {
	const attributes = `device.attributes["` + v1alpha1.DriverName + `"]`
	return fmt.Sprintf(`device.driver == %[1]q && %[2]q in %[3]s && %[3]s.%[2]s.contains(%[4]q)`,
		v1alpha1.DriverName, id.Attribute(), attributes, id[1:])
}

// AddTo adds the ID to the attributes of a device. It returns false, and changes nothing, if the
// attribute has no room.
func (id NetworkID) AddTo(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
	name := id.Attribute()
	list := ""
	if present := attributes[name].StringValue; present != nil {
		list = *present
	}
	if len(list) >= idsPerAttribute*idLength {
		return false
	}
	list += string(id[1:]) + " "
	attributes[name] = resourceapi.DeviceAttribute{StringValue: &list}
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
			for rest := range strings.FieldsSeq(*attribute.StringValue) {
				if !yield(NetworkID(letter + rest)) {
					return
				}
			}
		}
	}
}
