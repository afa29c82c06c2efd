//go:build e2e

package vm

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// BenchmarkAlignedStarts starts pods with a CPU, a virtual function and a GPU of one NUMA node, one after another, and
// prints the milliseconds from create to Ready, for test/bench. VM_STARTS is their number.
func BenchmarkAlignedStarts(b *testing.B) {
	starts, err := strconv.Atoi(os.Getenv("VM_STARTS"))
	if err != nil {
		b.Fatalf("VM_STARTS is no number: %v", err)
	}
	f := scenario(b, "starts")
	f.threeDrivers(b)
	line := "vm-starts:"
	const warmUp = 2
	for i := range warmUp + starts {
		name, created := fmt.Sprintf("start-%d", i), time.Now()
		f.start(lab.Pod(f.ns, name, "aligned"))
		f.untilReady(name)
		if took := time.Since(created); i >= warmUp {
			line += fmt.Sprintf(" %.0f", stats.Milliseconds(took))
		}
		f.must(f.DeletePod(f.ctx, f.ns, name))
	}
	fmt.Println(line)
}

// untilReady waits until a watch shows that a pod is Ready.
func (f *fixture) untilReady(name string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, podLimit)
	defer cancel()
	only := func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name }
	events := cache.NewFilteredListWatchFromClient(f.Kube.CoreV1().RESTClient(), "pods", f.ns, only)
	_, err := watchtools.UntilWithSync(ctx, events, &corev1.Pod{}, nil, func(e watch.Event) (bool, error) {
		pod, isPod := e.Object.(*corev1.Pod)
		return isPod && lab.IsReady(pod), nil
	})
	f.must(err)
}
