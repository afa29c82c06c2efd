package controller

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
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

// TestMemoryOfNetworks checks that the cache keeps at most 20 KiB of a NAD, whatever its author wrote
// where.
func TestMemoryOfNetworks(t *testing.T) {
	const nads, most = 1000, 20 << 10
	long := strings.Repeat("x", 256<<10)
	kept := make([]any, nads)
	before := heap()
	for i := range kept {
		nad := &nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprint("lan-", i), Labels: map[string]string{"a": "b"},
				Annotations: map[string]string{"example.com/other": strings.Clone(long), attachment.ResourceNameAnnotation: strings.Clone(long)},
			},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: strings.Clone(long)},
		}
		var err error
		if kept[i], err = attachment.SlimObject(nad); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int(heap()) - int(before); grown > nads*most {
		t.Errorf("%d NADs take %d KiB each, want at most %d", nads, grown/nads>>10, most>>10)
	}
	if _, err := attachment.ParseNetwork(kept[0].(*nadv1.NetworkAttachmentDefinition)); reason.Of(err) != reason.LimitExceeded {
		t.Errorf("what is kept is refused with %v", err)
	}
}
