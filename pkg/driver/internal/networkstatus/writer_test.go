package networkstatus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// unseen is a watch that does not have the pod yet.
func unseen(attachment.PodRef) *metav1.PartialObjectMetadata { return nil }

// TestWriteIsTriedWhileThePodExists refuses every write for an hour: the writer goes on, also if the watch lags
// behind, and reports once that the status is late. It stops when the sandbox is gone.
func TestWriteIsTriedWhileThePodExists(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no rights"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("changed meanwhile"))
	for _, why := range []error{forbidden, conflict} {
		synctest.Test(t, func(t *testing.T) {
			var gone atomic.Bool
			var stored, told int
			tries := 0
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, UID: types.UID(drivertest.Web.UID)}}
			kube := fake.NewClientset(pod)
			kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				tries++
				return true, nil, why
			})
			w := NewWriter(Options{
				Kube: kube, Manager: "nadra", Find: unseen,
				DefaultNetwork: func(ctx context.Context, s attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
					if gone.Load() {
						return nil, podns.ErrGone
					}
					return drivertest.CBR0(ctx, s)
				},
				Stored: func([]checkpoint.Record) error { stored++; return nil },
				Late: func(_ attachment.PodRef, err error) {
					if told++; !errors.Is(err, why) {
						t.Errorf("told of %v", err)
					}
				},
			})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan struct{})
			go func() { w.Run(ctx, func(context.Context, attachment.Sandbox) error { return nil }); close(ended) }()
			w.Set(drivertest.SandboxNo(1), []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)})
			time.Sleep(time.Hour)
			synctest.Wait()
			if tries < 700 || told != 1 || stored != 0 {
				t.Errorf("in an hour: %d tries, told %d times, stored %d times", tries, told, stored)
			}
			gone.Store(true)
			time.Sleep(longestPause)
			synctest.Wait()
			if n := w.Queue(time.Now()).Length; n > 0 {
				t.Errorf("%d statuses of a sandbox that is gone are pending", n)
			}
			end()
			<-ended
		})
	}
}

// exposureWorld is a writer with an API server that takes its time.
type exposureWorld struct {
	*Writer
	slow   time.Duration // how long a write takes
	writes int
	events []string // stored, stale
}

// run runs a test with a writer at work.
func (w *exposureWorld) run(t *testing.T, test func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, UID: types.UID(drivertest.Web.UID)}}
		kube := fake.NewClientset(pod)
		kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			w.writes++
			time.Sleep(w.slow)
			return false, nil, nil
		})
		w.Writer = NewWriter(Options{
			Kube: kube, Manager: "nadra", DefaultNetwork: drivertest.CBR0, Find: unseen,
			Stored: func([]checkpoint.Record) error { w.events = append(w.events, "stored"); return nil },
			Late:   func(attachment.PodRef, error) {},
		})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx, func(context.Context, attachment.Sandbox) error { w.events = append(w.events, "stale"); return nil })
			close(ended)
		}()
		test()
		end()
		<-ended
	})
}

// add attaches networks with these addresses, which come so long before their ADDs end. The last one
// completes the pod.
func (w *exposureWorld) add(ipam string, chain time.Duration, addresses ...string) {
	var records []checkpoint.Record
	for i, address := range addresses {
		allocated := time.Now()
		time.Sleep(chain)
		r := drivertest.Attached(fmt.Sprintf("net%d", i+1), fmt.Sprintf(`{"cniVersion":"1.1.0","ips":[{"address":"%s/24"}]}`, address))
		r.Attachment.Conflist = fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"blue","plugins":[{"type":"macvlan","ipam":{"type":%q}}]}`, ipam)
		records = append(records, r)
		w.Added(drivertest.SandboxNo(1), records[:i+1:i+1], allocated, i+1 < len(addresses))
	}
	w.Set(drivertest.SandboxNo(1), records)
	time.Sleep(time.Minute)
	synctest.Wait()
}

// TestAddressesAreListedInTime attaches networks, again if their status is stale, and checks when a
// status is stale: as soon as the addresses of one network were not listed for too long, however short
// the last one waited.
func TestAddressesAreListedInTime(t *testing.T) {
	const wa, instant = attachment.Whereabouts, time.Millisecond
	for _, tt := range []struct {
		name   string
		attach func(w *exposureWorld)
		writes int
		want   []string
	}{
		{"one network", func(w *exposureWorld) { w.add(wa, instant, "10.1.0.1") }, 1, []string{"stored"}},
		{"one whose chain takes long", func(w *exposureWorld) { w.add(wa, StaleAfter, "10.1.0.1") }, 1, []string{"stale"}},
		{"three that take as long together", func(w *exposureWorld) { w.add(wa, StaleAfter/2, "10.1.0.1", "10.1.0.2", "10.1.0.3") }, 3, []string{"stored"}},
		{"three of another IPAM", func(w *exposureWorld) { w.add("host-local", StaleAfter/2, "10.1.0.1", "10.1.0.2", "10.1.0.3") }, 1, []string{"stored"}},
		{"slow writes, then the same addresses", func(w *exposureWorld) {
			w.slow = StaleAfter
			w.add(wa, instant, "10.1.0.1", "10.1.0.2")
			w.add(wa, instant, "10.1.0.1", "10.1.0.2")
		}, 3, []string{"stale", "stored"}},
		{"slow writes, then another address", func(w *exposureWorld) {
			w.slow = StaleAfter
			w.add(wa, instant, "10.1.0.1")
			w.add(wa, instant, "10.1.0.2")
		}, 2, []string{"stale", "stale"}},
		{"slow writes, and an address that was not listed for a time", func(w *exposureWorld) {
			w.slow = StaleAfter
			w.add(wa, instant, "10.1.0.1")
			w.add(wa, instant, "10.1.0.2")
			w.add(wa, instant, "10.1.0.1")
		}, 3, []string{"stale", "stale", "stale"}},
		{"slow writes after a failed attach", func(w *exposureWorld) {
			w.add(wa, instant, "10.1.0.1")
			w.Forget(drivertest.Web)
			w.slow = StaleAfter
			w.add(wa, instant, "10.1.0.1")
		}, 2, []string{"stored", "stale"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &exposureWorld{}
			w.run(t, func() { tt.attach(w) })
			drivertest.Same(t, "outcomes", tt.want, w.events)
			drivertest.Same(t, "writes", tt.writes, w.writes)
		})
	}
}
