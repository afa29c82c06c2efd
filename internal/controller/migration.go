package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// migration counts the pods that name networks by annotation, by what attaches them, as
// `kubectl nadra get attachments` does:
//
//	nadra   it has a claim for networks, or nadra attaches it without one
//	multus  its network-status has networks of Multus, or it does not run yet
//	none    it runs, and its network-status has no networks
//
// attachment.AttacherOf decides. migration skips pods that have ended, and pods on the host's network.
type migration struct {
	objects client.Reader // templates and NADs
	pods    podCache
	meters  *metrics.Controller
	drivers *drivers

	mu     sync.Mutex
	owners map[types.UID]attachment.Attacher
	counts map[attachment.Attacher]int
}

func newMigration(objects client.Reader, pods podCache, meters *metrics.Controller, drivers *drivers) *migration {
	m := &migration{
		objects: objects, pods: pods, meters: meters, drivers: drivers, owners: map[types.UID]attachment.Attacher{},
		counts: map[attachment.Attacher]int{attachment.OfNadra: 0, attachment.OfMultus: 0, attachment.OfNobody: 0},
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
	if pod, ok := lastState(object).(*corev1.Pod); ok {
		m.set(pod.UID, "")
		m.drivers.setPod(pod, "", false)
	}
}

func (m *migration) count(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		owner := m.owner(pod)
		m.set(pod.UID, owner)
		m.drivers.setPod(pod, owner, installation.DriverReady(pod, m.drivers.namespace))
	}
}

// owner returns what attaches the networks of a slim pod, "" if it names none.
func (m *migration) owner(pod *corev1.Pod) attachment.Attacher {
	attacher := cachedAttacher(pod)
	if attacher == "" || attacher == attachment.OfNadra || !m.byHand(pod) && !m.ofPool(pod) {
		return attacher
	}
	return attachment.OfNadra
}

// byHand reports whether a handwritten template requests devices of nadra. It assumes that a template which is
// not in the cache requests none; the next change of the pod counts the pod again.
func (m *migration) byHand(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		var t resourceapi.ResourceClaimTemplate
		key := client.ObjectKey{Namespace: pod.Namespace, Name: *c.ResourceClaimTemplateName}
		if m.objects.Get(context.Background(), key, &t) == nil &&
			len(attachment.RequestsOfClaim(t.Spec.Spec, pod.Namespace, nil).Ours) > 0 {
			return true
		}
	}
	return false
}

// ofPool reports whether the claim for a pod's extended resources has a network, or a device of a NAD's pool: claims for
// others, such as GPUs, are not for networks. It sees a NAD that comes later at the next change of the pod, as byHand does a template.
func (m *migration) ofPool(pod *corev1.Pod) bool {
	claim := pod.Status.ExtendedResourceClaimStatus
	return claim != nil && slices.ContainsFunc(claim.RequestMappings, func(r corev1.ContainerExtendedResourceRequest) bool {
		if _, one := attachment.ClassNetwork(strings.TrimPrefix(r.ResourceName, resourceapi.ResourceDeviceClassPrefix)); one {
			return true
		}
		var nads nadv1.NetworkAttachmentDefinitionList
		inPool := client.MatchingFields{byClass: poolClassName(r.ResourceName)}
		return m.objects.List(context.Background(), &nads, inPool, client.Limit(1)) == nil && len(nads.Items) > 0
	})
}

// set changes what attaches the networks of a pod.
func (m *migration) set(pod types.UID, owner attachment.Attacher) {
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
		m.meters.Pods(string(owner), n)
	}
}

// cachedAttacher returns what attaches the networks of a pod in the cache, without regard to handwritten
// templates and extended resources. slimPod stores it in the status' reason, which needs no additional memory.
func cachedAttacher(pod *corev1.Pod) attachment.Attacher {
	return attachment.Attacher(pod.Status.Reason)
}
