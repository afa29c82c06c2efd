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
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// migration counts the pods that name networks by annotation, by what attaches them, as
// `kubectl nadra get attachments` does:
//
//	nadra   it has a claim: by a template for networks, or for an extended resource
//	multus  it has no claim; its network-status has networks, or it does not run yet
//	none    it has no claim, it runs, and its network-status has no networks
//
// It skips pods that have ended, and pods on the host's network.
type migration struct {
	templates client.Reader
	pods      podCache
	meters    *metrics.Controller

	mu     sync.Mutex
	owners map[types.UID]string
	counts map[string]int
}

func newMigration(templates client.Reader, pods podCache, meters *metrics.Controller) *migration {
	m := &migration{
		templates: templates, pods: pods, meters: meters, owners: map[types.UID]string{},
		counts: map[string]int{metrics.OfNadra: 0, metrics.OfMultus: 0, metrics.OfNobody: 0},
	}
	m.publish()
	return m
}

// setUp handles the events of the pods in the cache. A replica that does not lead has no pods, and
// counts none.
func (m *migration) setUp(manager.Manager) error {
	informer, err := m.pods.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if _, err := informer.AddEventHandler(m); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

// OnAdd counts a pod.
func (m *migration) OnAdd(object any, _ bool) { m.count(object) }

// OnUpdate counts a pod again.
func (m *migration) OnUpdate(_, object any) { m.count(object) }

// OnDelete removes a pod from the counts.
func (m *migration) OnDelete(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		m.set(pod.UID, "")
	}
}

func (m *migration) count(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		m.set(pod.UID, m.owner(pod))
	}
}

// owner returns what attaches the networks of a slim pod, "" if it names none.
func (m *migration) owner(pod *corev1.Pod) string {
	attacher := cachedAttacher(pod)
	if attacher == "" || attacher == metrics.OfNadra || !m.byHand(pod) {
		return attacher
	}
	return metrics.OfNadra
}

// byHand reports whether a handwritten template requests networks. It assumes that a template which is
// not in the cache requests none; the next change of the pod counts the pod again.
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

// forNetworks reports whether a claim requests devices of nadra's classes.
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

// set changes what attaches the networks of a pod.
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
	m.publish()
}

// publish sets the metrics. The caller holds mu, or is the only user of m.
func (m *migration) publish() {
	for owner, n := range m.counts {
		m.meters.Pods(owner, n)
	}
}

// cachedAttacher returns what attaches the networks of a pod in the cache, without regard to handwritten
// templates. slimPod stores it in the status' reason, which needs no additional memory.
func cachedAttacher(pod *corev1.Pod) string { return pod.Status.Reason }

// attacherOf returns what attaches the networks of a whole pod, without regard to handwritten templates.
func attacherOf(pod *corev1.Pod) string {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case over, pod.Spec.HostNetwork, !namesNetworks(pod):
		return ""
	case len(translate.TemplatesOf(&pod.Spec)) > 0, pod.Status.ExtendedResourceClaimStatus != nil:
		return metrics.OfNadra
	case hasNetworks(pod), pod.Status.Phase != corev1.PodRunning:
		return metrics.OfMultus
	}
	return metrics.OfNobody
}

// namesNetworks reports whether the annotation names networks, or is invalid.
func namesNetworks(pod *corev1.Pod) bool {
	text := attachment.NetworksText(pod.Annotations)
	if strings.TrimSpace(text) == "" {
		return false
	}
	networks, err := attachment.ParseSelections(text, pod.Namespace)
	return err != nil || len(networks) > 0
}

// hasNetworks reports whether network-status has another network than the default one.
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
