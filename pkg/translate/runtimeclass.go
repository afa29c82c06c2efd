package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// vmHandlers are parts of the names of runtimes that need all interfaces before the sandbox starts.
// Most RuntimeClasses are named after their handlers.
var vmHandlers = []string{
	"kata", "gvisor", "runsc", "firecracker", "qemu", "cloud-hypervisor", "dragonball", "stratovirt", "peerpod",
}

// kataAnnotation is the prefix of the annotations by which pods configure Kata Containers.
const kataAnnotation = "io.katacontainers."

// checkRuntime reports pods that run in virtual machines, by the handler of their RuntimeClass. If
// the handler is unknown, it goes by the name of the class and by annotations for Kata
// Containers.
func (r podRules) checkRuntime() {
	name := r.pod.template.get("spec", "runtimeClassName")
	handler, known := r.env.handler(name.str())
	if !known {
		handler = name.str()
	}
	if slices.ContainsFunc(vmHandlers, func(part string) bool { return strings.Contains(handler, part) }) {
		r.addAt(VMRuntime, name, "handler %s", handler)
		return
	}
	if known {
		return
	}
	annotations := r.pod.template.get("metadata", "annotations")
	yamledit.Entries(annotations.node, func(key, _ *yaml.Node) {
		if strings.HasPrefix(key.Value, kataAnnotation) && !r.has(VMRuntime) {
			r.addAt(VMRuntime, spot{key, annotations.path.Child(key.Value)}, "the annotation is for Kata Containers")
		}
	})
}

// handler returns the handler of a RuntimeClass of the input or the cluster.
func (e *environment) handler(class string) (handler string, known bool) {
	if h, found := e.handlers[class]; found || class == "" || e.options.LookupRuntimeClass == nil {
		return h, found
	}
	return e.options.LookupRuntimeClass(class)
}
