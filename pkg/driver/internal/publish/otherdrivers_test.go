package publish

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestNetworksOfOtherDriversPoolsAreOffered checks that a network is offered while another
// driver has devices of its pool here.
func TestNetworksOfOtherDriversPoolsAreOffered(t *testing.T) {
	kube := fake.NewClientset(drivertest.OtherDriversSlice("7"))
	others, err := NewOtherDrivers(kube, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) { o.OtherPools = others.Pools })
	for name, pool := range map[string]string{"vf": "example.com/vf", "sf": "example.com/sf"} {
		nad := drivertest.NAD(name, drivertest.VFConf)
		nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: pool}
		if err := b.nads.Add(nad); err != nil {
			t.Fatal(err)
		}
	}
	changed := make(chan struct{}, 10)
	err = others.Start(t.Context(), func(run func() error) { go func() { _ = run() }() }, func() { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	offered := func() (names []string) {
		b.sync(t)
		return b.calls[len(b.calls)-1]
	}
	drivertest.Same(t, "offered", []string{"default-vf"}, offered())
	slim := others.informer.GetStore().List()[0].(*resourceapi.ResourceSlice)
	drivertest.Same(t, "devices that are kept", 1, len(slim.Spec.Devices))
	drivertest.Same(t, "attributes that are kept", 2, len(slim.Spec.Devices[0].Attributes))
	for len(changed) > 0 {
		<-changed
	}
	if err := kube.ResourceV1().ResourceSlices().Delete(t.Context(), "node-1-other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("the change is not reported")
	}
	drivertest.Same(t, "offered", []string{}, offered())
}
