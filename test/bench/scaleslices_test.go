package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// writingTime limits the writes of all drivers.
const writingTime = 5 * time.Minute

// sliceFigures has the figures of the slices of all nodes.
type sliceFigures struct {
	// Count is the number of slices.
	Count int
	// Published has the times in which all were created, in milliseconds.
	Published stats.Sample
	// JSON and Stored are the sizes of the slices of a node or profile as a client reads them and as etcd
	// stores them (protobuf), in KiB.
	JSON, Stored float64
}

// KiB returns what all slices take in etcd.
func (f offerFigures) KiB(nodes int) float64 {
	if f.Profiles > 0 {
		return f.Slices.Stored * float64(f.Profiles)
	}
	return f.Slices.Stored * float64(nodes)
}

// publish makes all nodes have an offer, and records how long that takes.
func (s *scale) publish(b *testing.B, o *offer, f *sliceFigures) {
	if s.fleet.offer == o {
		return
	}
	s.fleet.withdraw(b)
	if o.driver == "" {
		s.fleet.offer = o
		return
	}
	start := time.Now()
	f.Count = s.fleet.publish(b, o)
	f.Published.Add(time.Since(start))
	f.JSON, f.Stored = 0, 0
	of := metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.fleet.lastNode()}
	if len(o.profiles) > 0 {
		of = metav1.ListOptions{LabelSelector: v1alpha1.ProfileLabel + "=" + o.profiles[0].name}
	}
	list, err := s.fleet.kube.ResourceV1().ResourceSlices().List(b.Context(), of)
	must(b, err)
	for i := range list.Items {
		text, stored := weigh(b, &list.Items[i])
		f.JSON += text
		f.Stored += stored
	}
	s.progress("%s: %d slices published in %.1f s", o.title, f.Count, time.Since(start).Seconds())
}

// weigh returns the size of a slice as JSON and as etcd stores it, in KiB.
func weigh(b *testing.B, slice *resourceapi.ResourceSlice) (text, stored float64) {
	b.Helper()
	encoded, err := json.Marshal(slice)
	must(b, err)
	return float64(len(encoded)) / 1024, float64(slice.Size()) / 1024
}

// await waits until all drivers have written a change of their slices, or have seen that of their profile's.
func (f *fleet) await(b *testing.B) {
	must(b, lab.Eventually(b.Context(), writingTime, func(context.Context) error {
		done := 0
		for _, d := range f.drivers {
			if d.done() {
				done++
			}
		}
		if done < len(f.drivers) {
			return fmt.Errorf("%d of %d drivers are done", done, len(f.drivers))
		}
		return nil
	}))
}

// etcdSize returns the size of etcd's file, with what is not compacted yet, in MiB.
func (s *scale) etcdSize(b *testing.B) float64 {
	for _, m := range apiMetrics(b, s.fleet.kube) {
		if m.name == "apiserver_storage_size_bytes" {
			return m.value / (1 << 20)
		}
	}
	b.Fatal("the API server has no metric of etcd's size")
	return 0
}
