package inspect

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

func cluster(objects ...runtime.Object) (Cluster, *fake.Clientset) {
	kube := fake.NewClientset(objects...)
	return Cluster{Kube: kube, NADs: nadfake.NewSimpleClientset(), Namespace: "shop"}, kube
}

// refuse makes the API server answer a list with an error.
func refuse(kube *fake.Clientset, resource string, answer func(schema.GroupResource) error) {
	kube.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, answer(schema.GroupResource{Resource: resource})
	})
}

func forbidden(r schema.GroupResource) error { return apierrors.NewForbidden(r, "", errors.New("no")) }

func notFound(r schema.GroupResource) error { return apierrors.NewNotFound(r, "") }

// TestReadWithoutRights checks that kinds which a user may not read are in Unread.
func TestReadWithoutRights(t *testing.T) {
	c, kube := cluster(pod("web"))
	for _, kind := range []Kind{Slices, Classes} {
		refuse(kube, string(kind), forbidden)
	}
	in, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Pods) != 1 || !in.Unread[Slices] || !in.Unread[Classes] || in.Unread[Networks] {
		t.Errorf("got %d pods, unread %v", len(in.Pods), in.Unread)
	}
	refuse(kube, "resourceclaims", forbidden)
	if _, err := c.Read(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("without claims: %v", err)
	}
}

// TestPodReadsWhatSurroundsIt checks that the pods of the driver, the claims of other namespaces and the events of the
// pod's networks are read for a pod that waits, and that what may not be read is said.
func TestPodReadsWhatSurroundsIt(t *testing.T) {
	driver := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node"}}
	driver.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-node"}}
	at := func(node string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: node}, Spec: corev1.PodSpec{NodeName: node, Containers: driver.Spec.Template.Spec.Containers}}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	elsewhere := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "db"}}
	waits := pod("web")
	waits.Status.Phase = corev1.PodPending
	c, kube := cluster(waits, pod("runs"), driver, at("a", corev1.ConditionTrue), at("b", corev1.ConditionFalse), elsewhere)
	in, err := c.Pod(t.Context(), "web")
	if err != nil || !maps.Equal(in.Drivers, map[string]bool{"a": true}) || len(in.Claims) != 1 || len(in.Unread) != 0 {
		t.Errorf("drivers %v, %d claims, unread %v, %v", in.Drivers, len(in.Claims), in.Unread, err)
	}
	if in, err = c.Pod(t.Context(), "runs"); err != nil || len(in.Claims) != 0 {
		t.Errorf("of a pod that runs: %d claims, %v", len(in.Claims), err)
	}
	kube.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "shop" && a.GetResource().Resource == "resourceclaims" {
			return false, nil, nil // a user of one namespace
		}
		return true, nil, forbidden(a.GetResource().GroupResource())
	})
	in, err = c.Pod(t.Context(), "web")
	if err != nil || in.Drivers != nil || !in.Unread[Workloads] || !in.Unread[Claims] || !in.Unread[Events] || !in.Unread[Nodes] {
		t.Errorf("without rights: drivers %v, unread %v, %v", in.Drivers, in.Unread, err)
	}
}

func TestPodWithoutDRA(t *testing.T) {
	c, kube := cluster(pod("web"))
	for _, resource := range []string{"resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"} {
		refuse(kube, resource, notFound)
	}
	in, err := c.Pod(t.Context(), "web")
	if err != nil || !in.NoDRA || in.Pod.Name != "web" {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := c.Pod(t.Context(), "api"); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that does not exist: %v", err)
	}
}

// TestWatch checks that a watch reports the first state and each change, and ends with its
// context and without goroutines.
func TestWatch(t *testing.T) {
	// The NADs' fake server knows no streams of lists.
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	for name, unserved := range map[string][]string{
		"all kinds": nil, "without NADs": {string(Networks)}, "without DRA": {string(Claims), string(Templates), string(Slices), string(Classes)},
	} {
		t.Run(name, func(t *testing.T) { watches(t, unserved) })
	}
}

// watches watches a cluster that does not serve some kinds.
func watches(t *testing.T, unserved []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, kube := cluster(pod("web"))
		for _, resource := range unserved {
			answer := func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, notFound(schema.GroupResource{Resource: resource})
			}
			kube.PrependReactor("list", resource, answer)
			c.NADs.(*nadfake.Clientset).PrependReactor("list", resource, answer)
		}
		reports, done := make(chan int, 10), make(chan error, 1)
		go func() {
			done <- c.Watch(ctx, func(in Input) error { reports <- len(in.Pods); return nil })
		}()
		select {
		case n := <-reports:
			if n != 1 {
				t.Errorf("first %d pods", n)
			}
		case <-time.After(time.Minute):
			t.Error("nothing is reported")
			cancel()
			t.Log(<-done)
			return
		}
		time.Sleep(time.Second)
		if _, err := kube.CoreV1().Pods("shop").Create(ctx, pod("api"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for n := range reports {
			if n == 2 {
				break
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
}
