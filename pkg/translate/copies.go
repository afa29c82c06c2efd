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
			r.add(AddressOfSeveralPods, r.path(), r.place(i), "networks[%d].ips: %s", i, why)
		case s.MAC != "":
			r.add(AddressOfSeveralPods, r.path(), r.place(i), "networks[%d].mac: %s", i, why)
		case n.fixed && n.blocked == nil:
			r.add(AddressOfSeveralPods, r.path(), r.place(i), "spec.config of %s has the address: %s", s.Network, why)
		}
	}
}

// several reports whether the manifest asks for more than one pod of a template at a time, and why.
func (r podRules) several() (bool, string) {
	if len(r.pod.at) <= len(r.object.path) {
		return false, "" // a pod
	}
	if r.object.group == "apps" && r.object.ref.Kind == "DaemonSet" {
		return true, "each node of the DaemonSet has a pod"
	}
	beside := r.pod.at[len(r.object.path) : len(r.pod.at)-1]
	for _, key := range []string{"replicas", "parallelism"} {
		n := str(get(r.object.node, append(slices.Clone(beside), key)...))
		if count, err := strconv.Atoi(n); err == nil && count > 1 {
			return true, key + " is " + n
		}
	}
	return false, ""
}
