package driver

import (
	"context"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// measuredHooks measures how long the runtime waits for hooks. NRI subscribes by the methods, so
// it has the same methods as hooks.
type measuredHooks struct {
	*hooks
	// limit returns the runtime's limit for a request, which is known once it has connected.
	limit func() time.Duration
}

// done measures a call that has returned.
func (m *measuredHooks) done(event string, started time.Time) {
	m.metrics.Hooked(event, time.Since(started), m.limit())
}

// Synchronize calls the hook, records the runtime's limit, and measures the call.
func (m *measuredHooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, containers []*nri.Container) ([]*nri.ContainerUpdate, error) {
	defer m.done(metrics.Synchronize, time.Now())
	m.runtime.setLimit(m.limit())
	m.metrics.Connected()
	return m.hooks.Synchronize(ctx, pods, containers)
}

// RunPodSandbox calls the hook and measures the call.
func (m *measuredHooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RunPodSandbox, time.Now())
	return m.hooks.RunPodSandbox(ctx, pod)
}

// CreateContainer calls the hook and measures the call.
func (m *measuredHooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, container *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer m.done(metrics.CreateContainer, time.Now())
	return m.hooks.CreateContainer(ctx, pod, container)
}

// StopPodSandbox calls the hook and measures the call.
func (m *measuredHooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.StopPodSandbox, time.Now())
	return m.hooks.StopPodSandbox(ctx, pod)
}

// RemovePodSandbox calls the hook and measures the call.
func (m *measuredHooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RemovePodSandbox, time.Now())
	return m.hooks.RemovePodSandbox(ctx, pod)
}

// measuredPlugin measures how long the kubelet waits.
type measuredPlugin struct {
	plugin
	metrics *metrics.Node
}

// PrepareResourceClaims calls the plugin and measures the call. An error of the call counts for
// all claims.
func (m measuredPlugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	started := time.Now()
	results, err := m.plugin.PrepareResourceClaims(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID].Err != nil {
			failed++
		}
	}
	m.metrics.Prepared(len(claims), failed, time.Since(started))
	return results, err
}

// UnprepareResourceClaims calls the plugin and measures the call.
func (m measuredPlugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	started := time.Now()
	results, err := m.plugin.UnprepareResourceClaims(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID] != nil {
			failed++
		}
	}
	m.metrics.Unprepared(len(claims), failed, time.Since(started))
	return results, err
}
