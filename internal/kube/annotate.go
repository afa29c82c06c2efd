package kube

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// AnnotatePod sets an annotation of a pod through its status subresource, so that the
// caller needs no right to change pods. It fails if the pod's UID is another one, and if its resource version is
// unless version is empty.
func AnnotatePod(ctx context.Context, client kubernetes.Interface, manager string, pod attachment.PodRef, version, annotation, text string) error {
	metadata := map[string]any{"uid": pod.UID, "annotations": map[string]string{annotation: text}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}
