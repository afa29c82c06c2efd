package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
)

// free frees objects, each only if it has not changed since it was judged.
func (c Cleaner) free(ctx context.Context, f facts, orphans []probe.Orphan) {
	for i := range orphans {
		o := &orphans[i]
		if o.Action == probe.ActionNone {
			continue
		}
		err := c.freeOne(ctx, f, o)
		if err != nil && !apierrors.IsNotFound(err) {
			o.Error = err.Error()
			continue
		}
		o.Done = true
	}
}

// freeOne frees an object.
func (c Cleaner) freeOne(ctx context.Context, f facts, o *probe.Orphan) error {
	namespace, name, _ := strings.Cut(o.Object, "/")
	switch o.Kind {
	case probe.OrphanClaim:
		i := slices.IndexFunc(f.Claims, func(x resourceapi.ResourceClaim) bool { return x.Namespace == namespace && x.Name == name })
		return c.Kube.ResourceV1().ResourceClaims(namespace).Delete(ctx, name, kube.DeleteExactly(&f.Claims[i]))
	case probe.OrphanTemplate:
		i := slices.IndexFunc(f.Templates, func(x resourceapi.ResourceClaimTemplate) bool { return x.Namespace == namespace && x.Name == name })
		return c.Kube.ResourceV1().ResourceClaimTemplates(namespace).Delete(ctx, name, kube.DeleteExactly(&f.Templates[i]))
	case probe.OrphanWhereabouts:
		return c.release(ctx, namespace, name, o.Sandbox)
	case probe.OrphanReservation:
		return c.unreserve(ctx, namespace, name, o.Sandbox)
	}
	return fmt.Errorf("freeing an orphan of unknown kind %q", o.Kind)
}

// release removes an address from a pool, if it still belongs to the sandbox. Other
// addresses of the pool may change meanwhile.
func (c Cleaner) release(ctx context.Context, namespace, name, sandbox string) error {
	pool, key, _ := strings.Cut(name, "#")
	at := "/spec/allocations/" + key
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": at + "/id", "value": sandbox},
		{"op": "remove", "path": at},
	})
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(whereabouts.WithResource("ippools")).Namespace(namespace).Patch(ctx, pool, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// unreserve deletes a reservation, if it still belongs to the sandbox.
func (c Cleaner) unreserve(ctx context.Context, namespace, name, sandbox string) error {
	client := c.Dynamic.Resource(whereabouts.WithResource("overlappingrangeipreservations")).Namespace(namespace)
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fields, _ := o.Object["spec"].(map[string]any)
	if now := allocationOf(fields, "containerid").ID; now != sandbox {
		return fmt.Errorf("sandbox %.12s has reserved it meanwhile: it stays", now)
	}
	return client.Delete(ctx, name, kube.DeleteExactly(o))
}
