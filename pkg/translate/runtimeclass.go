package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// vmHandlers are parts of the names of runtimes that need all interfaces before
// the sandbox starts. RuntimeClasses are mostly named after their handlers.
var vmHandlers = []string{
	"kata", "gvisor", "runsc", "firecracker", "qemu", "cloud-hypervisor", "dragonball", "stratovirt", "peerpod",
}

// kataAnnotation is how the annotations begin by which pods configure Kata.
const kataAnnotation = "io.katacontainers."

// checkRuntime finds pods that run in virtual machines, by the handler of their
// RuntimeClass. Where that is not known, its name tells, or annotations that
// mean nothing to other runtimes.
func (p *planner) checkRuntime() {
	name := get(p.pod.template, "spec", "runtimeClassName")
	handler, known := p.env.handler(str(name))
	if !known {
		handler = str(name)
	}
	if slices.ContainsFunc(vmHandlers, func(part string) bool { return strings.Contains(handler, part) }) {
		p.add(VMRuntime, p.pod.at.Child("spec", "runtimeClassName"), p.doc.at(name), "handler %s", handler)
		return
	}
	if known {
		return
	}
	entries(get(p.pod.template, "metadata", "annotations"), func(key, _ *yaml.Node) {
		if strings.HasPrefix(key.Value, kataAnnotation) && !p.has(VMRuntime) {
			p.add(VMRuntime, p.annotationPath(key.Value), p.doc.at(key), "the annotation is for Kata Containers")
		}
	})
}

// handler is that of a RuntimeClass of the input or the cluster.
func (e *environment) handler(class string) (handler string, known bool) {
	if h, found := e.handlers[class]; found || class == "" || e.options.LookupRuntimeClass == nil {
		return h, found
	}
	return e.options.LookupRuntimeClass(class)
}
