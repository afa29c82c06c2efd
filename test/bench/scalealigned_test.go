package bench

import (
	"fmt"
	"os"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// alignedNodes is the number of simulated nodes whose claims are aligned.
const alignedNodes = 1_000

const (
	// cpuDriver stands for the driver of CPUs, which publishes a device for the CPUs of each NUMA node.
	cpuDriver = "cpu.example.com"
	// functionsPerPF is how many virtual functions a card of a simulated node has.
	functionsPerPF = 8
	alignedPool    = "intel.com/sriov"
)

// alignedFigures has the figures of claims with CPUs and a virtual function, on nodes with cards on some NUMA nodes.
type alignedFigures struct {
	Title string
	// Unaligned claims may have devices of two NUMA nodes, Aligned ones of one.
	Unaligned, Aligned podRates
}

// Share returns the rate of aligned claims divided by that of unaligned ones.
func (f alignedFigures) Share() float64 { return f.Aligned.Rate() / f.Unaligned.Rate() }

// AlignedNodes returns the number of nodes, for the document.
func (r *report) AlignedNodes() int { return alignedNodes }

// BenchmarkAligned schedules pods whose claims request CPUs and a virtual function of a pool, without and with a
// constraint that both are on one NUMA node. The nodes' own slices have what nadra and a driver of CPUs publish.
func BenchmarkAligned(b *testing.B) {
	figures.begin(b, "aligned")
	noLab(b)
	s := startScale(b)
	must(b, s.CreateNamespace(b.Context(), scaleNamespace))
	must(b, s.isolate(b.Context()))
	m, err := thisMachine(b.Context(), s.Lab)
	must(b, err)
	source, err := commit(b.Context())
	must(b, err)
	requests := s.alignedTemplates(b)
	figures.Aligned = nil
	figures.AlignedSource = fmt.Sprintf("on %s at commit %s with Kubernetes %s%s, the whole cluster on %d cores", m.Date, source, m.Kubernetes, inlining(), m.CPUs)
	must(b, s.fleet.join(alignedNodes))
	for _, o := range []*offer{alignedOffer("a card on each of two NUMA nodes", 0, 1), alignedOffer("one card, on the second NUMA node", 1)} {
		f := alignedFigures{Title: o.title}
		s.fleet.publish(b, o)
		for round := range s.rounds {
			for i, rates := range []*podRates{&f.Unaligned, &f.Aligned} {
				rates.Pods = scalePods
				last := s.schedule(b, requests[i], "")
				rates.Rounds = append(rates.Rounds, last)
				s.progress("round %d of %d, %s, %s: %d of %d pods bound in %.1f s (%.1f a second)",
					round+1, s.rounds, o.title, requests[i].template, last.Bound, scalePods, last.Seconds, last.Rate())
			}
		}
		figures.Aligned = append(figures.Aligned, f)
	}
	b.ReportMetric(0, "ns/op")
	for i, f := range figures.Aligned {
		b.ReportMetric(f.Unaligned.Rate(), fmt.Sprintf("unaligned/s-%d", i))
		b.ReportMetric(f.Aligned.Rate(), fmt.Sprintf("aligned/s-%d", i))
	}
}

// alignedOffer returns the slices of nadra for cards on NUMA nodes, and beside them those of a driver of CPUs.
func alignedOffer(title string, cards ...int64) *offer {
	o := &offer{title: title, driver: lab.DriverName, pools: pools{}}
	for _, numa := range cards {
		var slice resourceslice.Slice
		for i := range functionsPerPF {
			id := fmt.Sprintf("0000:%d1:00.%d", 2*(numa+1), i)
			root := fmt.Sprintf("pci0000:%d0", 2*(numa+1))
			slice.Devices = append(slice.Devices, resourceapi.Device{
				Name: fmt.Sprintf("pci-0000-%d1-00-%d", 2*(numa+1), i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					attachment.AttributeResourceName: {StringValue: ptr.To(alignedPool)}, attachment.AttributeDeviceID: {StringValue: &id},
					deviceattribute.StandardDeviceAttributePCIBusID: {StringValue: &id}, deviceattribute.StandardDeviceAttributePCIeRoot: {StringValue: &root},
					deviceattribute.StandardDeviceAttributeNUMANode: {IntValue: &numa}, "dra.net/numaNode": {IntValue: &numa},
					"kind": {StringValue: ptr.To("vf")}, "vendor": {StringValue: ptr.To("8086")}, "deviceCode": {StringValue: ptr.To("154c")},
					"driver": {StringValue: ptr.To("iavf")}, "linkType": {StringValue: ptr.To("ether")}, "vfIndex": {IntValue: ptr.To(int64(i))},
					"pfName": {StringValue: ptr.To(fmt.Sprintf("eno%d", numa))}, "rdma": {BoolValue: ptr.To(false)}, "vfioBound": {BoolValue: ptr.To(false)},
				},
			})
		}
		o.pools[fmt.Sprintf("/pf-0000-%d0-00-0", 2*(numa+1))] = resourceslice.Pool{Slices: []resourceslice.Slice{slice}}
	}
	var cpus resourceslice.Slice
	for numa := range int64(2) {
		cpus.Devices = append(cpus.Devices, resourceapi.Device{
			Name: fmt.Sprintf("cpudevnuma%03d", numa), AllowMultipleAllocations: ptr.To(true),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				deviceattribute.StandardDeviceAttributeNUMANode: {IntValue: &numa}, "dra.net/numaNode": {IntValue: &numa},
				"numaNodeID": {IntValue: &numa}, "socketID": {IntValue: &numa}, "numCPUs": {IntValue: ptr.To[int64](32)}, "smtEnabled": {BoolValue: ptr.To(true)},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{cpuDriver + "/cpu": {Value: resource.MustParse("32")}},
		})
	}
	o.beside = &offer{driver: cpuDriver, pools: pools{"": {Slices: []resourceslice.Slice{cpus}}}}
	return o
}

// alignedTemplates creates the classes and the claim templates, and returns the requests for unaligned and aligned
// devices.
func (s *scale) alignedTemplates(b *testing.B) []request {
	nad := attachment.NetworkRef{Namespace: scaleNamespace, Name: "sriov"}
	cpus := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: cpuDriver}}
	cpus.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", cpuDriver)}}}
	for _, class := range []*resourceapi.DeviceClass{cpus, translate.DeviceClass(nad, alignedPool)} {
		_, err := s.Kube.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{})
		must(b, err)
	}
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "cpus", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: cpuDriver, Capacity: &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{cpuDriver + "/cpu": resource.MustParse("4")},
		}}},
		{Name: "net1", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: attachment.DeviceClassName(nad)}},
	}}}
	var out []request
	for _, name := range []string{"unaligned", "aligned"} {
		if name == "aligned" {
			spec.Devices.Constraints = []resourceapi.DeviceConstraint{{
				MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributeNUMANode)),
			}}
		}
		must(b, s.CreateTemplate(b.Context(), &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: scaleNamespace, Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
		}))
		out = append(out, request{2, name})
	}
	return out
}

// inlining says so if components were not compiled like their releases, as with NADRA_INLINE=0.
func inlining() string {
	if os.Getenv(cluster.InlineVariable) == "1" {
		return ""
	}
	return ", its own packages compiled without inlining"
}
