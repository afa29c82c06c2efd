package checkpoint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// thousand is a store with the records of 1,000 pods with two networks each.
func thousand(b *testing.B) *checkpoint.Store {
	b.Helper()
	s, _, err := checkpoint.Open(b.TempDir(), "boot-1")
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		one := prepared(fmt.Sprintf("claim-%d", i), fmt.Sprintf("pod-%d", i), "net1", 0)
		two := prepared(fmt.Sprintf("claim-%d", i), fmt.Sprintf("pod-%d", i), "net2", 1)
		if err := s.Put([]attachment.Prepared{one, two}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// Every event of every pod asks for its records, also of those without claims.
func BenchmarkForPod(b *testing.B) {
	s := thousand(b)
	for b.Loop() {
		if len(s.ForPod("pod-500-uid")) != 2 {
			b.Fatal("not found")
		}
	}
}

// A pod's life in the records, with 1,000 others there.
func BenchmarkLife(b *testing.B) {
	s := thousand(b)
	result := json.RawMessage(`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/var/run/netns/cni-1"}],"ips":[{"address":"10.1.2.3/24"}]}`)
	for b.Loop() {
		keys := []checkpoint.Key{s.ForPod("pod-500-uid")[0].Key()}
		for _, err := range []error{
			s.MarkAttaching(keys, sandbox, nil),
			s.MarkAttached(checkpoint.Added{Key: keys[0], Result: result}),
			s.MarkDetached(keys...),
		} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N)/3, "ms/write")
}

// A write that an ADD waits for. It reports the median, because one in many waits for other programs' writes.
func BenchmarkWriteOnDisk(b *testing.B) {
	s, _, err := checkpoint.Open(b.TempDir(), "boot-1")
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Put([]attachment.Prepared{prepared("a", "web", "net1", 0)}); err != nil {
		b.Fatal(err)
	}
	keys := []checkpoint.Key{s.ForPod("web-uid")[0].Key()}
	var took []time.Duration
	for b.Loop() {
		started := time.Now()
		if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(started))
		if err := s.MarkDetached(keys...); err != nil {
			b.Fatal(err)
		}
		s.WaitSynced()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
}
