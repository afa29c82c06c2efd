//go:build e2e

package bench

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// pools has the pools that a driver publishes on a node, by their names without the node's.
type pools map[string]resourceslice.Pool

// on returns the same pools on another node.
func (p pools) on(node string) *resourceslice.DriverResources {
	out := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	for name, pool := range p {
		out.Pools[node+name] = pool
	}
	return out
}

// offer is what all nodes publish while pods are scheduled. Only one offer is published at a
// time: the scheduler reads the slices of all drivers on a node for every claim, so slices of
// a second driver would cost pods of the first one time, too.
type offer struct {
	name, title string
	// driver is empty if nothing is published.
	driver   string
	nads     int
	pools    pools
	requests []request
	// weighed offers are compared by the memory of the components.
	weighed bool
}

// request is what a pod requests.
type request struct {
	// networks is the number of networks, or of devices of the bare driver.
	networks int
	// template makes the pod's claim; empty if it has none.
	template string
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

// nadraOffer returns the slices of nadra's driver for a number of NADs.
func nadraOffer(nads int, p pools) *offer {
	o := &offer{name: fmt.Sprintf("nadra-%d", nads), title: "nadra, " + countNADs(nads), driver: lab.DriverName, nads: nads, pools: p}
	o.requests = []request{{1, o.name + "-1"}}
	if nads == usualNADs {
		o.weighed = true
		o.requests = []request{{}, {1, o.name + "-1"}, {3, o.name + "-3"}}
	}
	return o
}

// countNADs returns a number of NADs as text.
func countNADs(n int) string {
	if n == 1 {
		return "1 NAD"
	}
	return fmt.Sprintf("%d NADs", n)
}

// noOffer returns an offer without slices.
func noOffer() *offer {
	return &offer{name: "none", title: "no slices", requests: []request{{}}, weighed: true}
}

// newOfferFigures returns the offer's figures before anything was measured.
func newOfferFigures(o *offer) offerFigures {
	f := offerFigures{Title: o.title, NADs: o.nads}
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

// templates creates the classes and claim templates of all offers, as the webhook and the
// controller do.
func (s *scale) templates(b *testing.B) {
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: bareDriver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", bareDriver),
		}}}},
	}
	s.createClass(b, class)
	classes := map[string]bool{}
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
					if class := translate.DeviceClass(scaleNAD(i), ""); !classes[class.Name] {
						classes[class.Name] = true
						s.createClass(b, class)
					}
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

func (s *scale) createClass(b *testing.B, class *resourceapi.DeviceClass) {
	_, err := s.Kube.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{})
	must(b, err)
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
