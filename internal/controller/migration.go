package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// migration counts the pods that name networks by annotation, by who attaches
// them, as `kubectl nadra get attachments` has it:
//
//	nadra   it has a claim: by a template for networks, or for an extended resource
//	multus  it has none; its network-status has networks, or it does not run yet
//	none    it has none, it runs, and its network-status has no networks
//
// Pods that have ended, and those on the host's network, are not counted.
type migration struct {
	templates client.Reader
	meters    *metrics.Controller

	mu     sync.Mutex
	owners map[types.UID]string
	counts map[string]int
}

func newMigration(templates client.Reader, meters *metrics.Controller) *migration {
	m := &migration{
		templates: templates, meters: meters, owners: map[types.UID]string{},
		counts: map[string]int{metrics.OfNadra: 0, metrics.OfMultus: 0, metrics.OfNobody: 0},
	}
	m.tell()
	return m
}

// setUp follows the pods that the cache has anyway, on every replica.
func (m *migration) setUp(mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if _, err := informer.AddEventHandler(m); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

// OnAdd counts a pod.
func (m *migration) OnAdd(object any, _ bool) { m.see(object) }

// OnUpdate counts it anew.
func (m *migration) OnUpdate(_, object any) { m.see(object) }

// OnDelete counts it no more.
func (m *migration) OnDelete(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		m.set(pod.UID, "")
	}
}

func (m *migration) see(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		m.set(pod.UID, m.owner(pod))
	}
}

// owner is who attaches the networks of a slim pod; empty where nobody has to.
func (m *migration) owner(pod *corev1.Pod) string {
	left := leftTo(pod)
	if left == "" || left == metrics.OfNadra || !m.byHand(pod) {
		return left
	}
	return metrics.OfNadra
}

// byHand reports whether a template that somebody has written asks for networks.
// One that is not in the cache does not, as far as is known: its pod is looked at
// again with its next change.
func (m *migration) byHand(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		var t resourceapi.ResourceClaimTemplate
		key := client.ObjectKey{Namespace: pod.Namespace, Name: *c.ResourceClaimTemplateName}
		if m.templates.Get(context.Background(), key, &t) == nil && forNetworks(t.Spec.Spec) {
			return true
		}
	}
	return false
}

// forNetworks reports whether a claim asks for devices of nadra's classes.
func forNetworks(spec resourceapi.ResourceClaimSpec) bool {
	ours := func(class string) bool {
		_, one := attachment.ClassNetwork(class)
		return one || class == v1alpha1.DriverName
	}
	for _, r := range spec.Devices.Requests {
		if r.Exactly != nil && ours(r.Exactly.DeviceClassName) {
			return true
		}
		for _, s := range r.FirstAvailable {
			if ours(s.DeviceClassName) {
				return true
			}
		}
	}
	return false
}

func (m *migration) set(pod types.UID, owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.owners[pod]
	if before == owner {
		return
	}
	if before != "" {
		m.counts[before]--
		delete(m.owners, pod)
	}
	if owner != "" {
		m.counts[owner]++
		m.owners[pod] = owner
	}
	m.tell()
}

// tell has the metrics say what is counted. The caller holds mu, or has m alone.
func (m *migration) tell() {
	for owner, n := range m.counts {
		m.meters.Pods(owner, n)
	}
}

// leftTo is where the cache keeps who attaches a pod's networks, as far as the
// pod says. A reason is what a pod in the cache has no other use for, and costs
// nothing more.
func leftTo(pod *corev1.Pod) string { return pod.Status.Reason }

// attacher is who attaches a whole pod's networks, as far as it says.
func attacher(pod *corev1.Pod) string {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case over, pod.Spec.HostNetwork, !namesNetworks(pod):
		return ""
	case len(owned.TemplatesOf(&pod.Spec)) > 0, pod.Status.ExtendedResourceClaimStatus != nil:
		return metrics.OfNadra
	case hasNetworks(pod), pod.Status.Phase != corev1.PodRunning:
		return metrics.OfMultus
	}
	return metrics.OfNobody
}

// namesNetworks reports whether the annotation does, in whatever way.
func namesNetworks(pod *corev1.Pod) bool {
	text := pod.Annotations[attachment.NetworksAnnotation]
	if strings.TrimSpace(text) == "" {
		return false
	}
	networks, err := attachment.ParseSelections(text, pod.Namespace)
	return err != nil || len(networks) > 0
}

// hasNetworks reports whether network-status has one beside the default one.
func hasNetworks(pod *corev1.Pod) bool {
	var networks []struct{ Default bool }
	if json.Unmarshal([]byte(pod.Annotations[nadv1.NetworkStatusAnnot]), &networks) != nil {
		return false
	}
	for _, n := range networks {
		if !n.Default {
			return true
		}
	}
	return false
}
