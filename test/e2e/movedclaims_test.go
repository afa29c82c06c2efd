//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestNamedClaimMoves creates pods one after the other that refer to one claim by name, each while the one before,
// which was deleted by force, still ends. Each has the network of the claim, with an address of its own, and one
// has a new claim besides.
func TestNamedClaimMoves(t *testing.T) {
	f := setup(t, "moves")
	f.bridge("br-own")
	f.nad("lan", ownConf)
	f.nad("more", ownConf)
	f.Must(f.Published(f.Ctx, "moves/lan", "moves/more"))
	fixed := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.NS, Name: "fixed"}, Spec: lab.Template(f.NS, "x", lab.Want{Network: "lan"}).Spec.Spec}
	claims := f.Kube.ResourceV1().ResourceClaims(f.NS)
	_, err := claims.Create(f.Ctx, fixed, metav1.CreateOptions{})
	f.Must(err)
	t.Cleanup(func() { f.Must(claims.Delete(f.Ctx, "fixed", metav1.DeleteOptions{})) })
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "more", lab.Want{Network: "more"})))

	for _, name := range []string{"a", "b", "c"} {
		pod := lab.Pod(f.NS, name, "")
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName, pod.Spec.ResourceClaims[0].ResourceClaimName = nil, ptr.To("fixed")
		pod.Spec.Containers[0].Command = []string{"/bin/sleep", "infinity"} // it heeds no SIGTERM
		if name == "c" {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "more", ResourceClaimTemplateName: ptr.To("more")})
			pod.Spec.Containers[0].Resources.Claims = append(pod.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "more"})
		}
		began := time.Now()
		_, err := f.CreatePod(f.Ctx, pod)
		f.Must(err)
		_, err = f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
		t.Logf("moves: pod %s is Ready after %s", name, since(began))
		f.runsOn(name, "net1", "10.84.0.")
		if name == "c" {
			f.runsOn(name, "net2", "10.84.0.")
		}
		f.Must(f.Kube.CoreV1().Pods(f.NS).Delete(f.Ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	}
	f.Eventually(2*time.Minute, func(context.Context) error {
		if left := f.addresses(); left != "" {
			return fmt.Errorf("addresses are left: %s", left)
		}
		return nil
	})
}
