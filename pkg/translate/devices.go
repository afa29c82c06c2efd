package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// deviceSource is where a network of a pod gets its device from.
type deviceSource int

const (
	noDeviceNeeded deviceSource = iota // the network needs no device
	fromPool                           // the claim requests one of nadra's devices
	fromOtherClaim                     // a claim of the pod for another driver has it
	fromClass                          // a request of the claim for another driver's class has it
	noSource                           // the pod gets no device
)

// deviceSources decides from where the networks of a pod get their devices.
type deviceSources struct {
	*request
	// claims are the pod's claims for other drivers.
	claims []foreignClaim
	// references counts the networks by the pool of nadra from which they draw.
	references map[string]int64
	// found has the sources of pools that were looked up.
	found map[string]foundSource
}

// foundSource is where the networks of a pool get their devices from, and why.
type foundSource struct {
	source deviceSource
	why    string
}

func newDeviceSources(r *request) *deviceSources {
	d := &deviceSources{request: r, claims: r.foreignClaims(), references: map[string]int64{}, found: map[string]foundSource{}}
	for _, s := range r.selections {
		n, found := r.network(s.Network)
		if !found {
			continue
		}
		if source, _ := d.of(n); source == fromPool {
			d.references[n.resourceName]++
		}
	}
	return d
}

// of returns where a network gets its device from. why explains any source but nadra.
func (d *deviceSources) of(n network) (source deviceSource, why string) {
	pool := n.resourceName
	if pool == "" && n.deviceClass != "" {
		return fromClass, ""
	}
	if pool == "" {
		return noDeviceNeeded, ""
	}
	known, found := d.found[pool]
	if !found {
		known.source, known.why = d.look(pool)
		d.found[pool] = known
	}
	if known.source == noSource && n.deviceClass != "" {
		return fromClass, ""
	}
	return known.source, known.why
}

// look returns where the networks of a pool get their devices from, and why.
func (d *deviceSources) look(pool string) (source deviceSource, why string) {
	facts := d.env.poolFacts(pool)
	switch facts.Server {
	case PoolOfNadra:
		return fromPool, ""
	case PoolOfDriver:
		if len(d.claims) > 0 || d.pod.requests(pool) {
			return fromOtherClaim, fmt.Sprintf("driver %s publishes the devices of pool %s, and the pod requests one itself: nadra's claim requests no second one", facts.By, pool)
		}
		return noSource, fmt.Sprintf("driver %s publishes the devices of pool %s, and the pod has no claim for one: add the claim", facts.By, pool)
	}
	for _, c := range d.claims {
		if c.mentions(pool) {
			return fromOtherClaim, fmt.Sprintf("template %s selects devices of pool %s: nadra's claim requests no second one", c.template, pool)
		}
	}
	return noSource, facts.unserved(pool)
}

// deviceNeed is how a claim requests the devices of a network.
type deviceNeed struct {
	// expression selects them among all devices of nadra; empty if the request names the network's class.
	expression string
	// class is that of another driver's device on which the network runs, or empty.
	class string
}

// devices returns for each selection how a claim requests its devices. The class of a network whose device comes from
// another claim of the pod is for the devices of the pool. Of a workload that waits in a queue of Kueue, all requests for
// networks name the class of all devices.
func (d *deviceSources) devices(queued bool) []deviceNeed {
	out := make([]deviceNeed, len(d.selections))
	for i, s := range d.selections {
		n, found := d.network(s.Network)
		source := noDeviceNeeded
		if found {
			source, _ = d.of(n)
		}
		if source == fromClass {
			out[i].class = n.deviceClass
		}
		switch {
		case source == fromOtherClaim, source == fromClass && n.resourceName != "", queued && source != fromPool:
			out[i].expression = attachment.NetworkIDOf(s.Network).Selector()
		case queued:
			out[i].expression = PoolDevices(n.resourceName)
		}
	}
	return out
}

// foreignClaim is an entry of a pod's spec.resourceClaims that requests no networks of nadra.
type foreignClaim struct {
	template string
	// texts are the selectors of its requests and their classes.
	texts []string
}

// foreignClaims returns the pod's claims for other drivers.
func (r *request) foreignClaims() []foreignClaim {
	hand := r.hand()
	var out []foreignClaim
	for _, item := range r.pod.claims() {
		name := item.get("resourceClaimTemplateName").str()
		if MadeTemplate(name) || slices.ContainsFunc(hand, func(c handClaim) bool { return c.node == item.node }) {
			continue
		}
		out = append(out, foreignClaim{name, r.env.selectorsOf(r.object.ref.Namespace, name)})
	}
	return out
}

// mentions reports whether a selector of the claim names a pool.
func (c foreignClaim) mentions(pool string) bool {
	return slices.ContainsFunc(c.texts, func(text string) bool { return strings.Contains(text, `"`+pool+`"`) })
}

// selectorsOf returns the selectors of a template's requests and of their classes.
func (e *environment) selectorsOf(namespace, name string) []string {
	t := e.template(namespace, name)
	if t == nil {
		return nil
	}
	var out []string
	for _, r := range t.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		selectors := r.Exactly.Selectors
		if class := e.class(r.Exactly.DeviceClassName); class != nil {
			selectors = slices.Concat(selectors, class.Spec.Selectors)
		}
		for _, s := range selectors {
			if s.CEL != nil {
				out = append(out, s.CEL.Expression)
			}
		}
	}
	return out
}
