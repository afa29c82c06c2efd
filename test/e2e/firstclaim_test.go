//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	kinds := []string{"new", "existing"}
	took, events := map[string][]time.Duration{}, map[string]int{}
	for i := range pods {
		for _, kind := range kinds { // in turn, so that the machine's load is the same for both
			name := fmt.Sprintf("%s-%d", kind, i)
			began := time.Now()
			f.waiting(name, fmt.Sprintf("net@m%d", i))
			f.hasClaim(name)
			took[kind] = append(took[kind], time.Since(began))
		}
	}
	for _, kind := range kinds {
		for i := range pods {
			if printed := strings.Join(f.Events(f.Ctx, f.NS, fmt.Sprintf("%s-%d", kind, i)), "\n"); strings.Contains(printed, "FailedResourceClaimCreation") {
				events[kind]++
			}
		}
		slices.Sort(took[kind])
		t.Logf("first-claim: template=%s pods=%d median=%s max=%s failed-creation-events=%d", kind, pods, took[kind][pods/2].Round(time.Millisecond), took[kind][pods-1].Round(time.Millisecond), events[kind])
	}
	f.burst(200)
}

// burst creates pods of one new template at once, and waits until all have their claims.
func (f *fixture) burst(pods int) {
	before := len(f.templateNames())
	began := time.Now()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < pods; i += 8 {
				pod := asking(f.NS, fmt.Sprintf("burst-%d", i), "net@burst")
				pod.Spec.NodeSelector = map[string]string{"nowhere": "at-all"}
				pod.Labels = map[string]string{"burst": "yes"}
				if _, err := f.CreatePod(f.Ctx, pod); err != nil {
					f.Error(err)
				}
			}
		})
	}
	group.Wait()
	created := time.Since(began)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{LabelSelector: "burst=yes"})
		if err != nil {
			return err
		}
		claimed := 0
		for i := range list.Items {
			claimed += len(list.Items[i].Status.ResourceClaimStatuses)
		}
		if claimed != pods {
			return fmt.Errorf("%d of %d pods have a claim", claimed, pods)
		}
		return nil
	})
	f.Logf("burst: pods=%d templates=%d created-after=%s claimed-after=%s", pods, len(f.templateNames())-before, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if made := len(f.templateNames()) - before; made != 1 {
		f.Errorf("%d templates were made for a burst of equal pods", made)
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
