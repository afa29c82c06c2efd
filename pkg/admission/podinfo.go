package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// onePodInfo removes duplicates of the volume with the pod's labels and annotations, and of its
// mounts. The webhook of the network resources injector comes after this one and adds its volume to
// any pod. The API server then calls this one again and validates only the final result.
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

// extra returns the edits that remove all matching items but the first, from the end of the list.
func extra[T any](at translate.Path, list []T, matches func(T) bool) []translate.Edit {
	var edits []translate.Edit
	first := slices.IndexFunc(list, matches)
	for i := len(list) - 1; i > first; i-- {
		if matches(list[i]) {
			edits = append(edits, translate.Edit{Op: translate.Remove, Path: at.Index(i)})
		}
	}
	return edits
}
