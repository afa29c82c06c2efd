package attachment

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Satisfies reports whether an attachment is what a selection requests: its network, with the
// same parameters, and with its interface if the selection names one. A later change of the
// network's configuration does not count. byClaim is set if the attachment has a claim: its
// device is the allocated one, whatever the selection names.
func (a Attachment) Satisfies(s Selection, byClaim bool) bool {
	if a.Network != s.Network || s.Interface != "" && s.Interface != a.Interface {
		return false
	}
	wanted, have := capabilityArgs(s), a.CapabilityArgs
	if byClaim {
		wanted, have = without(wanted, "deviceID"), without(have, "deviceID")
	}
	return sameValues(wanted, have) && sameValues(s.CNIArgs, a.Args) &&
		reflect.DeepEqual(append([][2]string{}, cniArgs(s)...), append([][2]string{}, a.CNIArgs...)) &&
		reflect.DeepEqual(s.DefaultRoute, a.DefaultRoute)
}

// without returns a copy of the values without one key.
func without(values map[string]json.RawMessage, key string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for k, v := range values {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// sameValues reports whether two maps have the same JSON values, however they are written.
func sameValues(a, b map[string]json.RawMessage) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		other, found := b[k]
		if !found || !bytes.Equal(sortedKeys(v), sortedKeys(other)) {
			return false
		}
	}
	return true
}

// encoded returns values in the form in which records keep them.
func encoded(values map[string]json.RawMessage) map[string]json.RawMessage {
	if len(values) == 0 {
		return nil
	}
	out := map[string]json.RawMessage{}
	for k, v := range values {
		out[k] = sortedKeys(v)
	}
	return out
}
