package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// The limits of what tenants write and nadra reads. They are several times what is in the public
// manifests that nadra is tested with, and small enough that a pod, or a network, at all limits costs
// little of a node's memory and of an admission's time. Whatever exceeds one is refused with the reason
// LimitExceeded. The first paragraph of each comment is in docs/reference/limits.md.
const (
	// MaxNetworks is the number of networks of a pod, by its annotation and by its claims together.
	//
	// Two claims have room for as many requests. Public pods have 16 at most.
	MaxNetworks = 64

	// MaxPodClaims is the number of entries in spec.resourceClaims of a pod whose networks nadra attaches.
	//
	// Two of them have room for as many networks; of a workload in a queue of Kueue each has one. For each entry,
	// admission reads a template or a claim.
	MaxPodClaims = 32

	// MaxContainers is the number of containers and init containers of a pod whose networks nadra attaches.
	//
	// Each container refers to each claim, which is a change of the pod at its admission. Public pods have 5 at most.
	MaxContainers = 256

	// MaxEdits is the number of changes that nadra makes to a pod at its admission.
	//
	// It is the API server's limit for the operations of a JSON Patch. It has room for the references of as many
	// containers to as many claims.
	MaxEdits = 10_000

	// MaxClaimConfigs is the number of bytes of a claim's parameters for nadra, each counted for every request and
	// alternative that it is for.
	//
	// The parameters of each request are merged. Those of the largest annotation, converted, take less than 80 KiB, and
	// 4 KiB remain for each of 32 requests.
	MaxClaimConfigs = 128 << 10

	// MaxAnnotation is the number of bytes of a pod's networks annotation.
	//
	// Kubernetes allows 256 KiB for all annotations of an object. Public pods use 244 bytes at most.
	MaxAnnotation = 32 << 10

	// MaxRequest is the number of bytes of what a pod requests of one network: an element of the
	// annotation, or the parameters of a claim or a class.
	//
	// It is the API server's limit for opaque parameters.
	MaxRequest = 10 << 10

	// MaxRequestKeys is the number of keys of an element of the annotation, known and unknown.
	//
	// Multus knows 13 and ignores the others.
	MaxRequestKeys = 32

	// MaxArguments is the number of bytes of the cni-args of all networks of a pod together.
	//
	// They are merged into each plugin of a chain, so each byte is recorded as often as the chain has
	// plugins.
	MaxArguments = 32 << 10

	// MaxIPs is the number of addresses that a pod requests on one network.
	MaxIPs = 32

	// MaxPortMappings is the number of port mappings that a pod requests on one network.
	MaxPortMappings = 128

	// MaxDefaultRoutes is the number of gateways that a pod requests on one network.
	MaxDefaultRoutes = 16

	// MaxDeviceID is the number of bytes of the ID of a device.
	//
	// It is a part of a file's name (device information).
	MaxDeviceID = 128

	// MaxNetworkConfig is the number of bytes of a network's CNI configuration: spec.config of a
	// NetworkAttachmentDefinition, or a file on the node.
	//
	// Public ones have 1,987 at most.
	MaxNetworkConfig = 16 << 10

	// MaxPlugins is the number of plugins in a network's chain.
	//
	// All reference plugins that can be chained are fewer than half as many.
	MaxPlugins = 16

	// MaxNetworkName is the number of bytes of the name of a network in its CNI configuration, or of the
	// NetworkAttachmentDefinition if the configuration has none.
	//
	// libcni keeps the result of an ADD in a file NAME-CONTAINER-INTERFACE, and a file's name has at most
	// 255 bytes: without the hyphens, a container's ID (64) and an interface (15), 174 remain, and
	// temporary files add to their names. Some IPAM plugins name a directory after the network.
	MaxNetworkName = 128

	// MaxLabel is the number of bytes of the resource pool, or of the label of nodes, that an annotation of
	// a NetworkAttachmentDefinition names.
	//
	// It is Kubernetes' limit for a label with its value: 253, 63 and 63 bytes, and two separators.
	MaxLabel = 253 + 1 + 63 + 1 + 63

	// MaxProgramName is the number of bytes of the name of a plugin, which is that of a file.
	MaxProgramName = 255

	// MaxDepth is how deeply lists and objects of JSON are nested.
	//
	// Public configurations and annotations reach 7.
	MaxDepth = 32
)

// maxValue, maxErrors and maxMessage limit what errors repeat of a config.
const maxValue, maxErrors, maxMessage = 128, 16, 1 << 10

// CheckSize returns an error with the code LimitExceeded if a value exceeds a limit. unit is what both
// count; remedy is an imperative.
func CheckSize(name string, value, limit int, unit, remedy string) error {
	if value <= limit {
		return nil
	}
	return reason.Errorf(reason.LimitExceeded, "%s has %d %s, more than %d: %s", name, value, unit, limit, remedy)
}

// CheckText returns an error with the code LimitExceeded if a text has too many bytes, or lists and
// objects of JSON are nested too deeply in it. It decodes nothing: the text may be invalid. It does not
// report the text's size, because Cut may have shortened the text.
func CheckText[T ~string | ~[]byte](name string, text T, limit int, remedy string) error {
	if len(text) > limit {
		return reason.Errorf(reason.LimitExceeded, "%s has more than %d bytes: %s", name, limit, remedy)
	}
	return CheckSize(name, depth(text), MaxDepth, "levels of nested lists and objects", "nest it less deeply")
}

// depth returns how deeply lists and objects are nested, without decoding the text, which may be
// invalid: it counts the brackets outside of strings.
func depth[T ~string | ~[]byte](text T) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}', c == ']':
			level--
		}
	}
	return deepest
}

// Cut returns a text as far as CheckText needs it in order to accept or refuse it, in memory of its own:
// caches keep no more of what tenants write.
func Cut(text string, limit int) string {
	return strings.Clone(text[:min(len(text), limit+1)])
}

// AsError returns the errors of Validate as one error, or nil. Its code is LimitExceeded if a value
// exceeds a limit; without one, it has no code.
func AsError(errs field.ErrorList) error {
	err := errs.ToAggregate()
	if err == nil || Code(errs) == "" {
		return err
	}
	return reason.Wrap(Code(errs), err)
}

// Code returns LimitExceeded if one of the errors is about a limit, and "" otherwise.
func Code(errs field.ErrorList) reason.Code {
	for _, err := range errs {
		if err.Type == field.ErrorTypeTooMany || err.Type == field.ErrorTypeTooLong {
			return reason.LimitExceeded
		}
	}
	return ""
}

// brief shortens errors, so that events and logs do not repeat what a tenant has written at length.
func brief(errs field.ErrorList) field.ErrorList {
	errs = errs[:min(len(errs), maxErrors)]
	for _, err := range errs {
		err.Field = words.Short(err.Field, maxValue)
		if value, ok := err.BadValue.(string); ok {
			err.BadValue = words.Short(value, maxValue)
		}
	}
	return errs
}

// validateCount refuses lists that are too long.
func validateCount(path *field.Path, length, limit int) field.ErrorList {
	if length > limit {
		return field.ErrorList{field.TooMany(path, length, limit)}
	}
	return nil
}
