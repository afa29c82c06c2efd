package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// written runs a writer over a cluster with one pod and one claim, until ok.
func written(t *testing.T, kube *fake.Clientset, fill func(*statusWriter), ok func(context.Context) error) {
	t.Helper()
	w := newStatusWriter(kube, "net.nadra.dev", func(attachment.Sandbox) (*nadv1.NetworkStatus, error) {
		return &nadv1.NetworkStatus{Name: "cbr0", Interface: "eth0", Default: true}, nil
	})
	fill(w)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	stop, end := context.WithCancel(ctx)
	go func() { done <- w.run(stop) }()
	err := ok(ctx)
	for err != nil && ctx.Err() == nil {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		err = ok(ctx)
	}
	if err != nil {
		t.Error(err)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func objects() (*corev1.Pod, *resourceapi.ResourceClaim) {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c-uid"}}
}

var claimRef = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}

func TestStatusIsWritten(t *testing.T) {
	pod, c := objects()
	kube := fake.NewClientset(pod, c)
	failures := 2
	kube.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures--; failures >= 0 {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	record := attachedRecord("net1", bridgeResult)
	fill := func(w *statusWriter) {
		old := failedState(record, errors.New("an earlier attempt"))
		w.setClaim(claimRef, []deviceState{old})
		second := attachedState(record)
		second.Device = "e"
		w.setClaim(claimRef, []deviceState{attachedState(record), second})
		w.setPod(sandboxNo(1), []checkpoint.Record{record})
	}
	written(t, kube, fill, func(ctx context.Context) error {
		got, err := kube.ResourceV1().ResourceClaims("default").Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.Devices) != 2 || got.Status.Devices[0].Conditions[0].Reason != reasonAttached {
			return fmt.Errorf("claim status %+v", got.Status.Devices)
		}
		p, err := kube.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := p.Annotations[nadv1.NetworkStatusAnnot]; !strings.Contains(text, `"name": "cbr0"`) || !strings.Contains(text, `"name": "default/blue"`) {
			return fmt.Errorf("network-status %q", text)
		}
		return nil
	})
}

// Objects that are gone are no reason to try for ever.
func TestStatusOfGoneObjectsIsDropped(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, "c")
	})
	var w *statusWriter
	written(t, kube, func(made *statusWriter) {
		w = made
		w.setClaim(claimRef, []deviceState{attachedState(attachedRecord("net1", bridgeResult))})
		w.setPod(sandboxNo(1), nil)
	}, func(context.Context) error {
		if n := w.queue.Len(); n > 0 || w.queue.NumRequeues(statusKey{claim: claimRef}) > 0 || w.queue.NumRequeues(statusKey{pod: web}) > 0 {
			return fmt.Errorf("%d writes are still queued", n)
		}
		return nil
	})
	if len(w.pending) > 0 {
		t.Errorf("remembered: %v", w.pending)
	}
}

// An earlier driver attached and did not live to tell: what is missing is
// written, and what is there keeps the time at which it became so.
func TestStatusIsRepaired(t *testing.T) {
	pod, c := objects()
	told := c.DeepCopy()
	told.Name, told.UID = "told", "told-uid"
	toldRef := attachment.ClaimRef{Namespace: "default", Name: "told", UID: "told-uid"}
	record := attachedRecord("net1", bridgeResult)
	long := metav1.NewTime(time.Unix(1000, 0))
	told.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "net.nadra.dev", Pool: record.Pool, Device: record.Device, ShareID: ptr.To(record.ShareID),
		Conditions: []metav1.Condition{{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonAttached, Message: attachedState(record).Message, LastTransitionTime: long}},
	}}
	kube := fake.NewClientset(pod, c, told)
	missing, there := record, record
	missing.Claim, there.Claim = claimRef, toldRef
	fill := func(w *statusWriter) { w.repair(sandboxNo(1), []checkpoint.Record{missing, there}) }
	written(t, kube, fill, func(ctx context.Context) error {
		got, err := kube.ResourceV1().ResourceClaims("default").Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.Devices) != 1 {
			return fmt.Errorf("claim status %+v", got.Status.Devices)
		}
		p, err := kube.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && p.Annotations[nadv1.NetworkStatusAnnot] == "" {
			err = errors.New("network-status is not there")
		}
		return err
	})
	got, err := kube.ResourceV1().ResourceClaims("default").Get(t.Context(), "told", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at := got.Status.Devices[0].Conditions[0].LastTransitionTime; !at.Equal(&long) {
		t.Errorf("the status that was there is written again, at %s", at)
	}
}
