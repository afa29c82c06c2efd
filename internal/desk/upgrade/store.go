package upgrade

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

const (
	// stateName is the name of the ConfigMap with plan and state, and of the Lease
	// of the process that carries the plan out.
	stateName = "nadra-upgrade"
	planKey   = "plan.json"
	stateKey  = "state.json"
	// pauseAnnotation requests a stop before the next step.
	pauseAnnotation = "nadra.dev/pause"
)

// ErrNone means that the cluster has no upgrade.
var ErrNone = errors.New("the cluster has no upgrade: start one with kubectl nadra upgrade run -f plan.yaml")

// Store keeps a plan and its state in a ConfigMap.
type Store struct {
	Kube      kubernetes.Interface
	Namespace string
}

// Load reads plan and state. paused is true if a pause was requested.
func (s Store) Load(ctx context.Context) (plan *Plan, state *State, paused bool, err error) {
	m, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, stateName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, false, ErrNone
	case err != nil:
		return nil, nil, false, fmt.Errorf("reading the state of the upgrade: %w", err)
	}
	where := fmt.Sprintf("ConfigMap %s/%s", s.Namespace, stateName)
	if plan, err = ParsePlan([]byte(m.Data[planKey])); err != nil {
		return nil, nil, false, fmt.Errorf("reading %s of %s: %w", planKey, where, err)
	}
	if state, err = parseState([]byte(m.Data[stateKey])); err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", where, err)
	}
	return plan, state, m.Annotations[pauseAnnotation] == "true", nil
}

// Save writes plan and state. Only the holder of the Lease may call it.
func (s Store) Save(ctx context.Context, plan *Plan, state *State) error {
	planText, err := document.JSON(plan, "  ")
	if err != nil {
		return err
	}
	stateText, err := document.JSON(state, "  ")
	if err != nil {
		return err
	}
	maps, data := s.Kube.CoreV1().ConfigMaps(s.Namespace), map[string]string{planKey: string(planText), stateKey: string(stateText)}
	m, err := maps.Get(ctx, stateName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: stateName, Namespace: s.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "kubectl-nadra"},
		}, Data: data}, metav1.CreateOptions{})
	case err == nil:
		m.Data = data
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("saving the state of the upgrade in ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	return nil
}

// Pause requests a pause before the next step, or withdraws the request.
func (s Store) Pause(ctx context.Context, on bool) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, pauseAnnotation)
	if on {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, pauseAnnotation)
	}
	_, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Patch(ctx, stateName, mergePatch, []byte(patch), metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return ErrNone
	case err != nil:
		return fmt.Errorf("requesting a pause in ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	return nil
}

// Forget deletes plan, state and Lease.
func (s Store) Forget(ctx context.Context) error {
	err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Delete(ctx, stateName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	err = s.Kube.CoordinationV1().Leases(s.Namespace).Delete(ctx, stateName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Lease %s/%s: %w", s.Namespace, stateName, err)
	}
	return nil
}
