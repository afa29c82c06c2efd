package attachment

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabel     = 63  // RFC 1123
	maxSubdomain = 253 // RFC 1123
	hashDigits   = 10
	classSuffix  = ".nad.nadra.dev"
)

// DeviceName returns the name of the device that stands for a network: a DNS
// label of a readable part and a hash. It is the same on every node and is
// never parsed back; a device's attributes say what it is.
func DeviceName(r NetworkRef) string {
	readable := strings.ReplaceAll(r.Namespace+"-"+r.Name, ".", "-")
	return cut(readable, maxLabel-1-hashDigits) + "-" + hash(r)
}

// DeviceClassName returns the name of a network's DeviceClass,
// <name>.<namespace>.nad.nadra.dev. A name too long for an object is cut and
// gets a hash.
func DeviceClassName(r NetworkRef) string {
	suffix := "." + r.Namespace + classSuffix
	if len(r.Name)+len(suffix) <= maxSubdomain {
		return r.Name + suffix
	}
	return cut(r.Name, maxSubdomain-len(suffix)-1-hashDigits) + "-" + hash(r) + suffix
}

// ClassNetwork returns the network that a DeviceClass is of, if DeviceClassName
// can give such a name. The namespace is always whole; of a name that was cut,
// what the class has of it is returned.
func ClassNetwork(class string) (network NetworkRef, ours bool) {
	rest, found := strings.CutSuffix(class, classSuffix)
	dot := strings.LastIndexByte(rest, '.')
	if !found || dot < 1 || dot == len(rest)-1 {
		return NetworkRef{}, false
	}
	return NetworkRef{Namespace: rest[dot+1:], Name: rest[:dot]}, true
}

// cut shortens s so that a name can go on after it.
func cut(s string, limit int) string {
	return strings.TrimRight(s[:min(len(s), limit)], "-.")
}

func hash(r NetworkRef) string {
	sum := sha256.Sum256([]byte(r.String()))
	return hex.EncodeToString(sum[:])[:hashDigits]
}
