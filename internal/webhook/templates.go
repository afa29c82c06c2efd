package webhook

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// createdFor is how long a created template is assumed to exist before the cache has it.
const createdFor = 2 * time.Second

// templates creates missing templates. It never changes an existing one.
type templates struct {
	client client.Writer
	live   client.Reader
	known  *memory
}

func newTemplates(c client.Writer, live client.Reader) *templates {
	return &templates{client: c, live: live, known: newMemory(createdFor)}
}

// ensure creates a template. It returns a template that exists already, so that the caller can
// compare it: the name is derived from the content, but a user may have created another template of
// that name.
func (t *templates) ensure(ctx context.Context, want *resourceapi.ResourceClaimTemplate) (there *resourceapi.ResourceClaimTemplate, err error) {
	key := client.ObjectKeyFromObject(want)
	if t.known.has(key.String()) {
		return nil, nil
	}
	for range 2 {
		made := want.DeepCopy()
		made.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
		err = t.client.Create(ctx, made, client.FieldOwner(v1alpha1.Controller))
		if err == nil {
			t.known.add(key.String())
			return nil, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, reason.Errorf(reason.TemplateNotCreated, "creating ResourceClaimTemplate %s: %w%s", key, err, remedy(err, key))
		}
		there = &resourceapi.ResourceClaimTemplate{}
		if err = t.live.Get(ctx, key, there); err == nil {
			return there, nil
		}
		// The template may have been deleted in between.
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	return nil, reason.Errorf(reason.ObjectNotRead, "reading ResourceClaimTemplate %s: %w", key, err)
}

// remedy returns a remedy for a refusal of the API server, or "".
func remedy(err error, key types.NamespacedName) string {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ""
	case strings.Contains(err.Error(), "exceeded quota"):
		return fmt.Sprintf(": raise count/resourceclaimtemplates.resource.k8s.io in the ResourceQuota of namespace %s, or delete unused templates", key.Namespace)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf(": allow %s's service account to create resourceclaimtemplates of resource.k8s.io in namespace %s", v1alpha1.Controller, key.Namespace)
	}
	return ""
}
