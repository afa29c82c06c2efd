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
	// takeOver is nriClient's.
	takeOver func(ctx context.Context, within time.Duration) error
}

// done measures a call that has returned.
func (m *measuredHooks) done(event string, started time.Time) {
	m.metrics.Hooked(event, time.Since(started), m.limit())
}

// Synchronize takes over from another driver, calls the hook, records the runtime's limit, and
// measures the call. containerd runs nothing else while it synchronises a plugin, so this is the
// moment at which no event can be lost: the driver before has had all earlier ones, and this one
// gets all later ones. An error makes the runtime drop this connection, and the driver before
// goes on.
func (m *measuredHooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, containers []*nri.Container) ([]*nri.ContainerUpdate, error) {
	defer m.done(metrics.Synchronize, time.Now())
	if err := m.takeOver(ctx, m.limit()-syncMargin); err != nil {
		return nil, err
	}
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

// measuredPlugin measures how long the kubelet waits, and counts its calls.
type measuredPlugin struct {
	plugin
	metrics *metrics.Node
	calls   *kubeletCalls
}

// PrepareResourceClaims calls the plugin and measures the call. An error of the call counts for
// all claims.
func (m measuredPlugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	end, err := m.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
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
	end, err := m.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
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
