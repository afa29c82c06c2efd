package offer

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nadra-dev/nadra/internal/words"
)

// maxAttribute is the API's limit for a string attribute, in bytes.
const maxAttribute = resourceapi.DeviceAttributeMaxValueLength

// AttrInstance is the attribute with the number of a copy, if devices cannot be shared. It is in the
// driver's domain.
const AttrInstance = "instance"

// String returns a string attribute. It truncates what the API does not accept.
func String(s string) resourceapi.DeviceAttribute {
	s = words.Short(s, maxAttribute)
	return resourceapi.DeviceAttribute{StringValue: &s}
}

// Int returns an integer attribute.
func Int(i int64) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{IntValue: &i} }

// Bool returns a boolean attribute.
func Bool(b bool) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{BoolValue: &b} }

// OneEach returns a capacity of which every allocation takes exactly one. Without a
// default the first claim would take all of it.
func OneEach(total int64) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: *resource.NewQuantity(total, resource.DecimalSI), RequestPolicy: takesOne}
}

// takesOne is shared by all devices, of which there may be thousands. A parsed quantity
// has its text already, so nothing writes to it.
var takesOne = func() *resourceapi.CapacityRequestPolicy {
	one := resource.MustParse("1")
	return &resourceapi.CapacityRequestPolicy{Default: &one, ValidValues: []resource.Quantity{one}}
}()

// IndexedName adds a number to a device's name. It shortens the name to keep it a DNS
// label.
func IndexedName(name string, i int) string {
	const maxLabel = 63
	suffix := fmt.Sprintf("-%d", i)
	if over := len(name) + len(suffix) - maxLabel; over > 0 {
		name = name[over:] // the hash is at the end
	}
	return strings.TrimLeft(name, "-") + suffix
}
