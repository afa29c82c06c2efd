package snapshot

import (
	"encoding/json"
	"fmt"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/bounded"
)

// TestWorkGrowsLinearly checks that the work for a pod does not grow with the square of its interfaces or claims. A tenant
// writes as many as fit into a pod.
func TestWorkGrowsLinearly(t *testing.T) {
	for name, prepare := range map[string]func(n int) (work func()){
		"network-status": func(n int) func() {
			pod, rows := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}, make([]inspect.Attachment, n)
			status := make([]nadv1.NetworkStatus, n)
			for i := range n {
				status[i].Name = fmt.Sprint("default/reported-", i)
				rows[i].Network = &attachment.NetworkRef{Namespace: "default", Name: fmt.Sprint("wanted-", i)}
			}
			text, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			pod.Annotations[nadv1.NetworkStatusAnnot] = string(text)
			return func() { new(Pod).addInterfaces(pod, rows) }
		},
		"pairs": func(n int) func() {
			was, now := &Pod{}, &Pod{}
			for i := range n {
				was.Interfaces = append(was.Interfaces, Interface{Network: "default/lan", Name: fmt.Sprint("net", i)})
				now.Interfaces = append(now.Interfaces, Interface{Network: "default/lan", Name: fmt.Sprint("net", n-i)})
			}
			return func() { newPodPair(nil, was, now) }
		},
		"devices": func(n int) func() {
			in, pod := &Input{}, &corev1.Pod{}
			for i := range n {
				in.Claims = append(in.Claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other-", i)}})
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimName: new(fmt.Sprint("claim-", i))})
			}
			return func() { in.devicesOf(pod) }
		},
	} {
		t.Run(name, func(t *testing.T) { bounded.Growth(t, 5_000, prepare) })
	}
}
