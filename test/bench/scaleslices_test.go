//go:build e2e

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// writingTime limits the writes of all drivers.
const writingTime = 5 * time.Minute

// sliceFigures has the figures of the slices of all nodes.
type sliceFigures struct {
	Count int
	// New is the number of them that were published, in Seconds from the first driver's
	// start.
	New     int
	Seconds float64
	// JSON is the size of one as a client reads it, Stored that of all in etcd, in
	// KiB and MiB; Etcd is the whole database, with what is not compacted yet.
	JSON, Stored, Etcd float64
}

// grow adds nodes and waits until all have published.
func (s *scale) grow(b *testing.B, nodes int) sliceFigures {
	f := sliceFigures{New: nodes - s.fleet.nodes}
	start := time.Now()
	must(b, s.fleet.join(nodes, s.before))
	s.fleet.await(b, func(d *simulated) bool { return d.controller.GetStats().NumCreates > 0 })
	f.Seconds = time.Since(start).Seconds()
	s.fleet.report(b)
	s.weigh(b, &f)
	return f
}

// await waits until all drivers have done something.
func (f *fleet) await(b *testing.B, ok func(*simulated) bool) {
	must(b, lab.Eventually(b.Context(), writingTime, func(context.Context) error {
		done := 0
		for _, d := range f.drivers {
			if ok(d) {
				done++
			}
		}
		if done < len(f.drivers) {
			return fmt.Errorf("%d of %d nodes have written", done, len(f.drivers))
		}
		return nil
	}))
}

// weigh reads all slices, in pages, and sets their sizes.
func (s *scale) weigh(b *testing.B, f *sliceFigures) {
	options := metav1.ListOptions{Limit: 500, FieldSelector: "spec.driver=" + lab.DriverName}
	for {
		list, err := s.fleet.kube.ResourceV1().ResourceSlices().List(b.Context(), options)
		must(b, err)
		f.Count += len(list.Items)
		for i := range list.Items {
			f.Stored += float64(list.Items[i].Size()) / (1 << 20)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			text, err := json.Marshal(list.Items[0])
			must(b, err)
			f.JSON = float64(len(text)) / 1024
			break
		}
	}
	for _, m := range apiMetrics(b, s.fleet.kube) {
		if m.name == "apiserver_storage_size_bytes" {
			f.Etcd = m.value / (1 << 20)
		}
	}
}
