package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// onePodInfo removes what is there twice of the files about the pod. Where the
// network resources injector serves the pods of Multus, its webhook comes after
// this one and adds its volume to any pod; then this one is asked again, and the
// API server looks only at what comes of it.
func onePodInfo(pod *corev1.Pod) []translate.Edit {
	edits := extra(translate.Path{"spec", "volumes"}, pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == translate.PodInfoVolume && v.DownwardAPI != nil
	})
	for i, c := range pod.Spec.Containers {
		at := translate.Path{"spec", "containers"}.Index(i).Child("volumeMounts")
		edits = append(edits, extra(at, c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == translate.PodInfoVolume && m.MountPath == translate.PodInfoPath
		})...)
	}
	return edits
}

// extra removes from a list, from its end, all that is so but the first.
func extra[T any](at translate.Path, list []T, so func(T) bool) []translate.Edit {
	var edits []translate.Edit
	first := slices.IndexFunc(list, so)
	for i := len(list) - 1; i > first; i-- {
		if so(list[i]) {
			edits = append(edits, translate.Edit{Op: translate.Remove, Path: at.Index(i)})
		}
	}
	return edits
}
