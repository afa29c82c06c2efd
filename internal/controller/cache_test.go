package controller

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// BenchmarkPodCache measures the memory of 10,000 pods in the cache, whole and slim. The pods have managed
// fields and status, as those of an API server.
func BenchmarkPodCache(b *testing.B) {
	text, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	const pods = 10_000
	for name, keep := range map[string]func(any) (any, error){
		"whole": func(o any) (any, error) { return o, nil },
		"slim":  slimPod,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				cache := make(map[string]any, pods)
				for i := range pods {
					pod := &corev1.Pod{}
					if err := json.Unmarshal(text, pod); err != nil {
						b.Fatal(err)
					}
					pod.Name = fmt.Sprint(pod.Name, i)
					if cache[pod.Name], err = keep(pod); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/pods, "B/pod")
				runtime.KeepAlive(cache)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestOnlyTheLeaderWatchesPods checks that a manager starts the cache of pods when it leads.
func TestOnlyTheLeaderWatchesPods(t *testing.T) {
	runnable, ok := any(podCache{}).(manager.LeaderElectionRunnable)
	if !ok || !runnable.NeedLeaderElection() {
		t.Error("every replica watches all pods of the cluster")
	}
	for object := range CacheOptions().ByObject {
		if _, pod := object.(*corev1.Pod); pod {
			t.Error("the cache of every replica is for pods, too")
		}
	}
}
