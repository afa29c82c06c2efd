package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	nodeoffer "github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// pools has the pools that a driver publishes on a node for itself, by their names without the node's.
type pools map[string]resourceslice.Pool

// on returns the same pools on another node.
func (p pools) on(node string) *resourceslice.DriverResources {
	out := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	for name, pool := range p {
		out.Pools[node+name] = pool
	}
	return out
}

// profile has what a Node says of its profile, and the slices that the controller made for it.
type profile struct {
	name, facts string
	slices      []resourceapi.ResourceSlice
}

// variant returns the profile of nodes that also have a program that no NAD names. Its slices differ in nothing but
// the profile's name.
func (p profile) variant(b *testing.B, number int) profile {
	facts, err := nodeoffer.ReadFacts(p.facts, p.name)
	must(b, err)
	facts.Plugins = append(facts.Plugins, fmt.Sprintf("variant-%d", number))
	var out profile
	out.facts, out.name, err = facts.Text()
	must(b, err)
	text, err := json.Marshal(p.slices)
	must(b, err)
	must(b, json.Unmarshal(bytes.ReplaceAll(text, []byte(p.name), []byte(out.name)), &out.slices))
	return out
}

// offer is what all nodes offer while pods are scheduled. Only one offer is published at a
// time: the scheduler reads the slices of all drivers on a node for every claim, so slices of
// a second driver would cost pods of the first one time, too.
type offer struct {
	name, title string
	// driver is empty if nothing is published.
	driver string
	nads   int
	// Each node has the pools, or one of the profiles: nodes have them in turn.
	pools    pools
	profiles []profile
	requests []request
	// beside has what another driver publishes on each node, if that is measured.
	beside *offer
	// weighed offers are compared by the memory of the components.
	weighed bool
}

// profileOf returns the profile of a node, by its number.
func (o *offer) profileOf(number int) profile { return o.profiles[number%len(o.profiles)] }

// request is what a pod requests.
type request struct {
	// networks is the number of networks, or of devices of the bare driver.
	networks int
	// template makes the pod's claim; empty if it has none.
	template string
}

// shared returns the slices of all profiles.
func (o *offer) shared() []resourceapi.ResourceSlice {
	var out []resourceapi.ResourceSlice
	for _, p := range o.profiles {
		out = append(out, p.slices...)
	}
	return out
}

// bareOffer returns the slices of the bare driver.
func bareOffer() *offer {
	device := resourceapi.Device{Name: "device", AllowMultipleAllocations: ptr.To(true)}
	return &offer{
		name: "bare", title: "a bare driver", driver: bareDriver, weighed: true,
		pools:    pools{"": {Slices: []resourceslice.Slice{{Devices: []resourceapi.Device{device}}}}},
		requests: []request{{}, {1, "bare-1"}, {3, "bare-3"}},
	}
}

// nadraOffer returns what nadra offers for a number of NADs: slices of each node, or those of profiles.
func nadraOffer(nads int, p pools, profiles ...profile) *offer {
	kind := "slices of each node"
	if len(profiles) > 0 {
		kind = counted(len(profiles), "profile")
	}
	o := &offer{
		name: fmt.Sprintf("nadra-%d-%d", len(profiles), nads), title: fmt.Sprintf("nadra, %s, %s", kind, counted(nads, "NAD")),
		driver: lab.DriverName, nads: nads, pools: p, profiles: profiles,
	}
	o.requests = []request{{1, o.name + "-1"}}
	if nads == usualNADs {
		o.requests = append(o.requests, request{3, o.name + "-3"})
	}
	if nads == usualNADs && len(profiles) < 2 {
		o.weighed = true
		o.requests = append([]request{{}}, o.requests...)
	}
	return o
}

// counted returns a number of things as text.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// noOffer returns an offer without slices.
func noOffer() *offer {
	return &offer{name: "none", title: "no slices", requests: []request{{}}, weighed: true}
}

// newOfferFigures returns the offer's figures before anything was measured.
func newOfferFigures(o *offer) offerFigures {
	f := offerFigures{Title: o.title, NADs: o.nads, Profiles: len(o.profiles)}
	for _, r := range o.requests {
		f.Pods = append(f.Pods, podRates{Networks: r.networks, Pods: scalePods})
	}
	return f
}

// scaleNAD names a NAD by its number.
func scaleNAD(i int) attachment.NetworkRef {
	return attachment.NetworkRef{Namespace: scaleNamespace, Name: networkNo(i)}
}

// scaleConfig returns the configuration of a NAD. Half of them are macvlan without IPAM,
// because nodes do not publish networks of whereabouts, whose program they do not have; devices
// of both are equal. The others are bridges with host-local and a /24 each.
func scaleConfig(i int) string {
	if i%2 == 0 {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":%q,"mode":"bridge"}`, lan)
	}
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br%d","ipam":{"type":"host-local","subnet":"10.%d.%d.0/24"}}`, i, 110+i/250, i%250)
}

// requested returns the numbers of the NADs that a pod requests, spread over all.
func requested(networks, nads int) []int {
	var out []int
	for i := range networks {
		out = append(out, (2*i+1)*nads/(2*networks))
	}
	return out
}

// templates creates the claim templates of all offers, as the webhook does, and waits for the classes of
// their networks, which the controller creates.
func (s *scale) templates(b *testing.B) {
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: bareDriver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", bareDriver),
		}}}},
	}
	_, err := s.Kube.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{})
	must(b, err)
	for _, o := range s.offers {
		for _, r := range o.requests {
			if r.template == "" {
				continue
			}
			spec := bareClaim(r.networks)
			if o.driver == lab.DriverName {
				var selections []attachment.Selection
				for _, i := range requested(r.networks, o.nads) {
					selections = append(selections, attachment.Selection{Network: scaleNAD(i)})
					must(b, lab.Eventually(b.Context(), time.Minute, func(ctx context.Context) error {
						_, err := s.Kube.ResourceV1().DeviceClasses().Get(ctx, translate.DeviceClass(scaleNAD(i), "").Name, metav1.GetOptions{})
						return err
					}))
				}
				var err error
				spec, err = attachment.ClaimSpec(selections)
				must(b, err)
			}
			must(b, s.CreateTemplate(b.Context(), &resourceapi.ResourceClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Namespace: scaleNamespace, Name: r.template},
				Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
			}))
		}
	}
}

// bareClaim returns a claim that requests the bare driver's device a number of times.
func bareClaim(devices int) resourceapi.ResourceClaimSpec {
	var spec resourceapi.ResourceClaimSpec
	for i := range devices {
		spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprintf("device%d", i+1), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: bareDriver},
		})
	}
	return spec
}

// pod returns a pod of this request.
func (r request) pod(name string) *corev1.Pod {
	p := lab.Pod(scaleNamespace, name, r.template)
	if r.template == "" {
		p.Spec.ResourceClaims, p.Spec.Containers[0].Resources.Claims = nil, nil
	}
	return p
}
