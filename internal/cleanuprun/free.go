package cleanuprun

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

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/internal/kube"
)

// free frees objects, each only if it is what was judged.
func (c Cleaner) free(ctx context.Context, f cleanup.Facts, orphans []cleanup.Orphan) {
	for i := range orphans {
		o := &orphans[i]
		if o.Action == cleanup.None {
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

func (c Cleaner) freeOne(ctx context.Context, f cleanup.Facts, o *cleanup.Orphan) error {
	namespace, name, _ := strings.Cut(o.Object, "/")
	switch o.Kind {
	case cleanup.Claim:
		i := slices.IndexFunc(f.Claims, func(x resourceapi.ResourceClaim) bool { return x.Namespace == namespace && x.Name == name })
		return c.Kube.ResourceV1().ResourceClaims(namespace).Delete(ctx, name, deleteExactly(&f.Claims[i]))
	case cleanup.Template:
		i := slices.IndexFunc(f.Templates, func(x resourceapi.ResourceClaimTemplate) bool { return x.Namespace == namespace && x.Name == name })
		return c.Kube.ResourceV1().ResourceClaimTemplates(namespace).Delete(ctx, name, deleteExactly(&f.Templates[i]))
	case cleanup.Whereabouts:
		return c.release(ctx, namespace, name, o.Sandbox)
	case cleanup.Reservation:
		return c.unreserve(ctx, namespace, name, o.Sandbox)
	}
	return fmt.Errorf("nothing is known about freeing a %s", o.Kind)
}

// deleteExactly returns options to delete the object as it was read.
func deleteExactly(o metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: kube.Exactly(o)}
}

// release takes an address out of a pool, if it is still that sandbox'. Other
// addresses of the pool come and go meanwhile.
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

// unreserve deletes a reservation, if it is still that sandbox'.
func (c Cleaner) unreserve(ctx context.Context, namespace, name, sandbox string) error {
	client := c.Dynamic.Resource(whereabouts.WithResource("overlappingrangeipreservations")).Namespace(namespace)
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fields, _ := o.Object["spec"].(map[string]any)
	if now := allocation(fields, "containerid").ID; now != sandbox {
		return fmt.Errorf("sandbox %.12s has reserved it now: it stays", now)
	}
	return client.Delete(ctx, name, deleteExactly(o))
}
