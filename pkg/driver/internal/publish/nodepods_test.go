package publish

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestNodePods checks that the number is the Node's, is read again, and survives failures.
func TestNodePods(t *testing.T) {
	node := func(pods string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		if pods != "" {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
		}
		return n
	}
	kube := fake.NewSimpleClientset(node("250"))
	var fails atomic.Bool
	kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails.Load(), nil, errors.New("no API server")
	})
	set := func(pods string) {
		if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), node(pods), ""); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, changes := NewNodePods(kube, "a"), atomic.Int32{}
		drivertest.Same(t, "before the Node is read", int64(usualPods), p.Count())
		p.Start(ctx, func(f func() error) { go func() { _ = f() }() }, func() { changes.Add(1) })
		for _, step := range []struct {
			name    string
			do      func()
			pods    int64
			changes int32
		}{
			{"at first", func() {}, 250, 0},
			{"unchanged", func() {}, 250, 0},
			{"changed", func() { set("64") }, 64, 1},
			{"not readable", func() { fails.Store(true) }, 64, 1},
			{"without a number", func() { fails.Store(false); set("") }, 64, 1},
			{"with a number again", func() { set("110") }, 110, 2},
		} {
			step.do()
			if step.name != "at first" {
				time.Sleep(nodePodsEvery)
			}
			synctest.Wait()
			drivertest.Same(t, step.name, []any{step.pods, step.changes}, []any{p.Count(), changes.Load()})
		}
		cancel()
		synctest.Wait()
	})
}
