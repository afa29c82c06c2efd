package translate

import (
	"slices"
	"strconv"
)

// checkCopies reports addresses that are written down once, for a workload of several pods: by the annotation of its
// pod template, or by an IPAM plugin that gives each pod the same.
func (r podRules) checkCopies() {
	several, why := r.several()
	if !several {
		return
	}
	for i, s := range r.selections {
		n, _ := r.network(s.Network)
		switch {
		case len(s.IPs) > 0:
			r.addFor(i, AddressOfSeveralPods, "networks[%d].ips: %s", i, why)
		case s.MAC != "":
			r.addFor(i, AddressOfSeveralPods, "networks[%d].mac: %s", i, why)
		case n.fixed && n.blocked == nil:
			r.addFor(i, AddressOfSeveralPods, "spec.config of %s has the address: %s", s.Network, why)
		}
	}
}

// several reports whether the manifest asks for more than one pod of a template at a time, and why.
func (r podRules) several() (bool, string) {
	at := r.pod.template.path
	if len(at) <= len(r.object.path) {
		return false, "" // a pod
	}
	if r.object.group == "apps" && r.object.ref.Kind == "DaemonSet" {
		return true, "each node of the DaemonSet has a pod"
	}
	beside := at[len(r.object.path) : len(at)-1]
	for _, key := range []string{"replicas", "parallelism"} {
		n := r.object.get(append(slices.Clone(beside), key)...).str()
		if count, err := strconv.Atoi(n); err == nil && count > 1 {
			return true, key + " is " + n
		}
	}
	return false, ""
}
