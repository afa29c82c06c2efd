package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/pkg/admission"
)

// Decider decides about pods: for the webhook before they exist, and for the controller, which creates
// the templates of those that exist.
type Decider struct {
	options admission.Options
	reader  *reader
	pools   *poolIndex
}

// NewDecider returns a Decider that reads with a manager's clients.
func NewDecider(mgr manager.Manager, o Options) *Decider {
	return &Decider{o.admission(), newReader(mgr.GetClient(), mgr.GetAPIReader()), newPoolIndex(mgr.GetAPIReader())}
}

// decide decides about a pod of a namespace. If server is not nil, it says what serves a resource pool.
func (d *Decider) decide(ctx context.Context, manifest []byte, namespace string, server func(pool string) admission.PoolFacts) (admission.Decision, error) {
	l := &lookups{ctx: ctx, reader: d.reader, pools: d.pools}
	look := l.admission()
	if server != nil {
		look.PoolServer = server
	}
	decision := admission.Pod(manifest, namespace, d.options, look)
	return decision, l.err
}

// Templates decides again about an admitted pod, and returns the templates to which it refers and that
// do not exist, by name. A name is derived from the content, so a template with the right name has the
// content of admission. refusal is not empty if the pod would be refused now, for example because its
// author has changed the annotation.
func (d *Decider) Templates(ctx context.Context, pod *corev1.Pod) (made map[string]*resourceapi.ResourceClaimTemplate, refusal string, err error) {
	manifest, err := json.Marshal(pod)
	if err != nil {
		return nil, "", fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	made = map[string]*resourceapi.ResourceClaimTemplate{}
	// The content depends on what serves the pools, and the replica that admitted the pod may have
	// known less or more about that. No pod waits for the list of slices, which would delay others.
	for _, server := range []func(string) admission.PoolFacts{
		func(string) admission.PoolFacts { return admission.PoolOfDriver() },
		func(string) admission.PoolFacts { return admission.PoolOfNadra() },
		func(pool string) admission.PoolFacts { return d.pools.facts(ctx, pool, 0) },
	} {
		decision, err := d.decide(ctx, manifest, pod.Namespace, server)
		if err != nil {
			return nil, "", err
		}
		refusal = decision.Refusal
		for _, t := range decision.Templates {
			made[t.Name] = t
		}
	}
	return made, refusal, nil
}
