package upgrade

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/admission"
)

// keepOff changes a DaemonSet of Multus so that its pods leave nadra's nodes. The
// pods on other nodes stay: they are replaced only when they are deleted. It returns
// the DaemonSet's original settings, and reports whether it changed them.
func keepOff(d *appsv1.DaemonSet) (was MultusState, changed bool, err error) {
	spec := &d.Spec.Template.Spec
	if was.Affinity, err = asJSON(spec.Affinity); err == nil {
		was.UpdateStrategy, err = asJSON(&d.Spec.UpdateStrategy)
	}
	if err == nil {
		changed, err = admission.KeepOff(spec)
	}
	if err != nil {
		return was, false, fmt.Errorf("keeping DaemonSet %s/%s off nadra's nodes: %w", d.Namespace, d.Name, err)
	}
	if changed {
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	return was, changed, nil
}

// restore gives a DaemonSet its original settings, and reports whether it changed
// them.
func restore(d *appsv1.DaemonSet, was MultusState) (changed bool, err error) {
	var affinity *corev1.Affinity
	var strategy appsv1.DaemonSetUpdateStrategy
	for _, field := range []struct {
		text json.RawMessage
		into any
	}{{was.Affinity, &affinity}, {was.UpdateStrategy, &strategy}} {
		if len(field.text) == 0 {
			continue
		}
		if err := json.Unmarshal(field.text, field.into); err != nil {
			return false, fmt.Errorf("reading the original settings of DaemonSet %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	if !admission.KeepsOff(d.Spec.Template.Spec.Affinity) {
		return false, nil
	}
	d.Spec.Template.Spec.Affinity, d.Spec.UpdateStrategy = affinity, strategy
	return true, nil
}

func asJSON(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil, err
	}
	return text, nil
}
