//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestControllerFirstClaim measures the time between the creation of a pod and its claim, for
// pods whose template does not exist yet and for pods whose template does.
func TestControllerFirstClaim(t *testing.T) {
	f := setup(t, "firstclaim")
	f.bridge("br-first")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.nad("net", strings.ReplaceAll(dropInConf, "br-drop", "br-first"))
	f.Must(f.Published(f.Ctx, f.NS+"/net"))

	const pods = 10
	for _, kind := range []string{"new", "existing"} {
		var took []time.Duration
		events := 0
		for i := range pods {
			name := fmt.Sprintf("%s-%d", kind, i)
			began := time.Now()
			f.waiting(name, fmt.Sprintf("net@m%d", i))
			f.hasClaim(name)
			took = append(took, time.Since(began))
		}
		for i := range pods {
			if printed := strings.Join(f.Events(f.Ctx, f.NS, fmt.Sprintf("%s-%d", kind, i)), "\n"); strings.Contains(printed, "FailedResourceClaimCreation") {
				events++
			}
		}
		slices.Sort(took)
		t.Logf("first-claim: template=%s pods=%d median=%s max=%s failed-creation-events=%d", kind, pods, took[pods/2].Round(time.Millisecond), took[pods-1].Round(time.Millisecond), events)
	}
}

// hasClaim waits until the status of a pod names its claim.
func (f *fixture) hasClaim(name string) {
	f.Helper()
	w, err := f.Kube.CoreV1().Pods(f.NS).Watch(f.Ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	f.Must(err)
	defer w.Stop()
	ctx, cancel := context.WithTimeout(f.Ctx, 3*time.Minute)
	defer cancel()
	for {
		select {
		case e := <-w.ResultChan():
			if pod, ok := e.Object.(*corev1.Pod); ok && len(pod.Status.ResourceClaimStatuses) > 0 {
				return
			}
		case <-ctx.Done():
			f.Fatalf("pod %s has no claim after three minutes", name)
		}
	}
}
