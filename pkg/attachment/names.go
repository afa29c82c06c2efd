package attachment

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

const (
	maxLabel     = 63  // RFC 1123
	maxSubdomain = 253 // RFC 1123
	hashDigits   = 10
	classSuffix  = ".nad.nadra.dev"

	// PoolClassSuffix ends the names of the DeviceClasses of resource pools.
	PoolClassSuffix = ".pool.nadra.dev"
)

// DeviceName returns the name of the device of a network that has one of its own: a readable part and a
// hash. With the number of a copy after it, it is a DNS label. It is the same on every node and is never
// parsed; a device's attributes list its networks.
func DeviceName(r NetworkRef) string {
	const copyNumber = len("-99999")
	readable := strings.ReplaceAll(r.Namespace+"-"+r.Name, ".", "-")
	return cut(readable, maxLabel-copyNumber-1-hashDigits) + "-" + hash(r)
}

// DeviceClassName returns the name of a network's DeviceClass, <name>.<namespace>.nad.nadra.dev. A
// name that is too long for an object is shortened and gets a hash.
func DeviceClassName(r NetworkRef) string {
	suffix := "." + r.Namespace + classSuffix
	if len(r.Name)+len(suffix) <= maxSubdomain {
		return r.Name + suffix
	}
	return cut(r.Name, maxSubdomain-len(suffix)-1-hashDigits) + "-" + hash(r) + suffix
}

// ClassNetwork returns the network of a DeviceClass, if DeviceClassName can return such a name. The
// namespace is always complete. A name that was shortened stays shortened.
func ClassNetwork(class string) (network NetworkRef, ours bool) {
	rest, found := strings.CutSuffix(class, classSuffix)
	dot := strings.LastIndexByte(rest, '.')
	if !found || dot < 1 || dot == len(rest)-1 {
		return NetworkRef{}, false
	}
	return NetworkRef{Namespace: rest[dot+1:], Name: rest[:dot]}, true
}

// isOwnClass reports whether a DeviceClass has the name of one of nadra's: of a network, of a pool or of all devices.
func isOwnClass(class string) bool {
	_, network := ClassNetwork(class)
	return network || class == v1alpha1.DriverName || strings.HasSuffix(class, PoolClassSuffix)
}

// cut shortens s so that a name can continue after it.
func cut(s string, limit int) string {
	return strings.TrimRight(s[:min(len(s), limit)], "-.")
}

// hash returns the hash of a network's name.
func hash(r NetworkRef) string {
	sum := sha256.Sum256([]byte(r.String()))
	return hex.EncodeToString(sum[:])[:hashDigits]
}
