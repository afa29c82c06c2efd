//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
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
	f.besideUndetermined(100)
}

// besideUndetermined creates pods that name templates of nadra whose content nothing determines, as a tenant can,
// and checks that none is made, and that another pod does not wait for these. One of them gets its template when
// its annotation determines it.
func (f *fixture) besideUndetermined(pods int) {
	before := f.templateNames()
	pod := func(name, template string) *corev1.Pod {
		pod := asking(f.NS, name, "")
		pod.Annotations = nil
		pod.Spec.NodeSelector = map[string]string{"nowhere": "at-all"}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "net", ResourceClaimTemplateName: &template}}
		return pod
	}
	for i := range pods {
		_, err := f.CreatePod(f.Ctx, pod(fmt.Sprintf("undetermined-%d", i), fmt.Sprintf("nadra-x-%010x", i)))
		f.Must(err)
	}
	began := time.Now()
	beside := f.waiting("beside", "net@beside")
	f.hasClaim("beside")
	if took := time.Since(began); took > 10*time.Second {
		f.Errorf("beside %d pods whose templates are undetermined, a pod has its claim after %s", pods, took)
	}
	made := slices.DeleteFunc(f.templateNames(), func(name string) bool { return slices.Contains(before, name) })
	if len(made) != 1 {
		f.Errorf("the templates %v were made, want one", made)
	}

	f.Kubectl("-n", f.NS, "delete", "pod", "beside", "--wait=false")
	f.Kubectl("-n", f.NS, "delete", "resourceclaimtemplate", made[0])
	late := pod("late", made[0])
	late.Spec.ResourceClaims, late.Spec.Containers[0].Resources.Claims = beside.Spec.ResourceClaims, beside.Spec.Containers[0].Resources.Claims
	f.Eventually(time.Minute, func(context.Context) error { // as long as the webhook sees the template, the pod is a copy to it
		admitted, err := f.dry(late)
		if err == nil && len(admitted.Spec.ResourceClaims) == 0 {
			err = errors.New("the webhook takes the claim away")
		}
		return err
	})
	late, err := f.CreatePod(f.Ctx, late)
	f.Must(err)
	f.Eventually(time.Minute, func(ctx context.Context) error {
		return contains("", strings.Join(f.Events(ctx, f.NS, "late"), "\n"), []string{string(reason.TemplateNotFound)})
	})
	late.Annotations = beside.Annotations
	_, err = f.Kube.CoreV1().Pods(f.NS).Update(f.Ctx, late, metav1.UpdateOptions{})
	f.Must(err)
	began = time.Now()
	f.hasClaim("late")
	f.Logf("undetermined: pods=%d late=%s", pods, time.Since(began).Round(time.Millisecond))
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
