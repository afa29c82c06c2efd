package driver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestMemoryOfPods checks that the watch keeps at most 128 KiB of a pod, also if its annotations have the
// 256 KiB that Kubernetes allows, wherever they are.
func TestMemoryOfPods(t *testing.T) {
	const pods, most = 500, 128 << 10
	for _, key := range []string{
		attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation, nadv1.NetworkStatusAnnot, checkAnnotation, corev1.MirrorPodAnnotationKey, "example.com/other",
	} {
		slim := slimPod
		kept := make([]any, pods)
		before := heap()
		for i := range kept {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprint("pod-", i), Annotations: map[string]string{key: strings.Repeat("x", 256<<10)},
			}}
			var err error
			if kept[i], err = slim(pod); err != nil {
				t.Fatal(err)
			}
		}
		if grown := heap() - before; grown > pods*most {
			t.Errorf("%s: %d pods take %d KiB each, want at most %d", key, pods, grown/pods>>10, most>>10)
		}
		runtime.KeepAlive(kept)
	}
}

// heap returns the bytes in use after a collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
