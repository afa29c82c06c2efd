package upgraderun

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

const (
	// stateName is that of the ConfigMap with plan and state, and of the Lease
	// that whoever carries it out holds.
	stateName = "nadra-upgrade"
	planKey   = "plan.json"
	stateKey  = "state.json"
	// pauseAnnotation asks whoever carries the plan out to stop before the next
	// step.
	pauseAnnotation = "nadra.dev/pause"
)

// ErrNone says that the cluster knows of no upgrade.
var ErrNone = errors.New("the cluster knows of no upgrade: kubectl nadra upgrade run -f plan.yaml begins one")

// Store keeps a plan and its state in a ConfigMap.
type Store struct {
	Kube      kubernetes.Interface
	Namespace string
}

// Load reads what the cluster knows. paused says that somebody has asked for a
// pause.
func (s Store) Load(ctx context.Context) (plan *upgrade.Plan, state *upgrade.State, paused bool, err error) {
	m, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, stateName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, false, ErrNone
	case err != nil:
		return nil, nil, false, fmt.Errorf("reading the state of the upgrade: %w", err)
	}
	where := fmt.Sprintf("ConfigMap %s/%s", s.Namespace, stateName)
	if plan, err = upgrade.ParsePlan([]byte(m.Data[planKey])); err != nil {
		return nil, nil, false, fmt.Errorf("reading %s of %s: %w", planKey, where, err)
	}
	if state, err = upgrade.ParseState([]byte(m.Data[stateKey])); err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", where, err)
	}
	return plan, state, m.Annotations[pauseAnnotation] == "true", nil
}

// Save keeps a plan and its state. Only who holds the Lease may.
func (s Store) Save(ctx context.Context, plan *upgrade.Plan, state *upgrade.State) error {
	planText, err := plan.JSON()
	if err != nil {
		return err
	}
	stateText, err := state.JSON()
	if err != nil {
		return err
	}
	maps := s.Kube.CoreV1().ConfigMaps(s.Namespace)
	m, err := maps.Get(ctx, stateName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: stateName, Namespace: s.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "kubectl-nadra"},
		}}
		m.Data = map[string]string{planKey: string(planText), stateKey: string(stateText)}
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	case err == nil:
		m.Data = map[string]string{planKey: string(planText), stateKey: string(stateText)}
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keeping the state of the upgrade in ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	return nil
}

// Pause asks for a pause before the next step, or takes that back.
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
		return fmt.Errorf("asking for a pause by ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	return nil
}

// Forget removes what the cluster knows of an upgrade.
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
