package driver

import (
	"context"
	"errors"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// measuredHooks are hooks of which it is measured how long the runtime waits.
// NRI subscribes by the methods: these are those of hooks.
type measuredHooks struct {
	*hooks
	// limit is the runtime's for a request, known once it has connected.
	limit func() time.Duration
}

func (m *measuredHooks) done(event string, started time.Time) {
	m.d.metrics.Hooked(event, time.Since(started), m.limit())
}

// Synchronize is also when the runtime's limit has come to be known.
func (m *measuredHooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, containers []*nri.Container) ([]*nri.ContainerUpdate, error) {
	defer m.done(metrics.Synchronize, time.Now())
	m.d.runtime.limited(m.limit())
	m.d.metrics.Connected()
	return m.hooks.Synchronize(ctx, pods, containers)
}

// RunPodSandbox is measured.
func (m *measuredHooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RunPodSandbox, time.Now())
	return m.hooks.RunPodSandbox(ctx, pod)
}

// CreateContainer is measured.
func (m *measuredHooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, container *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer m.done(metrics.CreateContainer, time.Now())
	return m.hooks.CreateContainer(ctx, pod, container)
}

// StopPodSandbox is measured.
func (m *measuredHooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.StopPodSandbox, time.Now())
	return m.hooks.StopPodSandbox(ctx, pod)
}

// RemovePodSandbox is measured.
func (m *measuredHooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RemovePodSandbox, time.Now())
	return m.hooks.RemovePodSandbox(ctx, pod)
}

// measuredPlugin is a plugin of which it is measured how long the kubelet waits.
type measuredPlugin struct{ plugin }

// PrepareResourceClaims is measured; an error of the call is one of all claims.
func (m measuredPlugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	started := time.Now()
	results, err := m.plugin.PrepareResourceClaims(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID].Err != nil {
			failed++
		}
	}
	m.d.metrics.Prepared(len(claims), failed, time.Since(started))
	return results, err
}

// UnprepareResourceClaims is measured.
func (m measuredPlugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	started := time.Now()
	results, err := m.plugin.UnprepareResourceClaims(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID] != nil {
			failed++
		}
	}
	m.d.metrics.Unprepared(len(claims), failed, time.Since(started))
	return results, err
}

// measure has the driver count what happens.
func (d *Driver) measure(m *metrics.Node) {
	d.metrics, d.slices.metrics = m, m
	d.networks.told = d.keepMeters
}

// keepMeters drops the counters of NADs that are gone, and to which no pod of
// this node is attached any more.
func (d *Driver) keepMeters(candidates map[attachment.NetworkRef]candidate) {
	d.metrics.Keep(func(namespace, name string) (cniType string, there bool) {
		ref := attachment.NetworkRef{Namespace: namespace, Name: name}
		c, there := candidates[ref]
		if !there {
			return "", d.attachedTo(ref)
		}
		if len(c.network.Plugins) > 0 {
			cniType = c.network.Plugins[0].Type
		}
		return cniType, true
	})
}

// attachedTo reports whether there is a record of a network.
func (d *Driver) attachedTo(ref attachment.NetworkRef) bool {
	for _, r := range d.store.All() {
		if r.Attachment.Network == ref && !r.DeviceOnly {
			return true
		}
	}
	return false
}

// measureEnd counts a job that has ended, and the containers that the gate has
// held meanwhile.
func (d *Driver) measureEnd(j *job, err error) {
	took := time.Since(j.begun)
	switch {
	case err == nil:
		d.metrics.PodAttached(took)
		d.metrics.Gate(metrics.Released, j.heldAtEnd())
	case isWithdrawn(err):
		d.metrics.PodCancelled(took)
	default:
		d.metrics.PodFailed(took)
		d.metrics.Gate(metrics.Refused, j.heldAtEnd())
	}
}

func isWithdrawn(err error) bool { return errors.As(err, new(withdrawn)) }
