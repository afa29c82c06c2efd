package publish

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// BenchmarkTenThousandNADs measures one refresh of the publisher with 10,000 NADs, none of
// which has changed, as every 15 s, and the memory that it holds between two.
func BenchmarkTenThousandNADs(b *testing.B) {
	p := newBench(b, func(o *Options) { o.Copies = 16 })
	publish := func(context.Context, slicewriter.PoolMaker) error { return nil }
	p.hostLinks["lan0"] = offer.Link{}
	empty := liveHeap()
	for i := range 10_000 {
		name := fmt.Sprintf("net-%05d", i)
		_ = p.nads.Add(drivertest.NAD(name, fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"macvlan","master":"lan0","mode":"bridge",
			"ipam":{"type":"host-local","subnet":"10.%d.%d.0/24"}}`, name, 110+i/250, i%250)))
	}
	filled := liveHeap()
	if err := p.Publisher.sync(b.Context(), publish); err != nil {
		b.Fatal(err)
	}
	published := liveHeap()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Publisher.sync(b.Context(), publish); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(filled-empty)/1e6, "MB-NADs")
	b.ReportMetric(float64(published-filled)/1e6, "MB-published")
	b.ReportMetric(float64(liveHeap()-published)/1e6, "MB-grown")
	runtime.KeepAlive(p)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
