//go:build e2e

package dropin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// controllerReplicas is the number of replicas in the manifests.
const controllerReplicas = 2

// TestControllerAway stops the controller. Meanwhile the API server must refuse pods that
// request networks, so that they are created later, and must admit all others.
func TestControllerAway(t *testing.T) {
	f := setup(t, "away")
	f.networks()
	f.ApplyYAML(lab.Workload("Deployment", "early", "", asked, ""))
	early := f.pods("early", 1)[0]
	before := f.view(early)

	t.Cleanup(func() { f.Must(f.ScaleController(f.Ctx, controllerReplicas)) }) // before the fixture's own
	f.Must(f.ScaleController(f.Ctx, 0))
	_, err := f.CreatePod(f.Ctx, plainPod(f.NS, "asks", "lan"))
	if err == nil || !strings.Contains(err.Error(), "pods.nadra.dev") {
		t.Errorf("creating an annotated pod without the controller: %v", err)
	}
	f.ApplyYAML(lab.Workload("Deployment", "late", "", "lan", ""))
	f.refused("late")
	f.blocked("nadra-controller", "nadra-webhook")
	_, err = f.CreatePod(f.Ctx, plainPod(f.NS, "plain", ""))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "plain", time.Minute)
	f.Must(err)
	f.unchanged("the controller's absence", early, before)

	f.Must(f.ScaleController(f.Ctx, controllerReplicas))
	f.servedBy(api.OwnerMultus, f.pods("late", 1)[0], 1)
	f.unchanged("the controller's return", early, before)
}

// refused waits until a Deployment's condition says that its pods cannot be created, and
// names the webhook.
func (f *fixture) refused(name string) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		d, err := f.Kube.AppsV1().Deployments(f.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && strings.Contains(c.Message, "pods.nadra.dev") {
				return nil
			}
		}
		return fmt.Errorf("the conditions of Deployment %s: %+v", name, d.Status.Conditions)
	})
}

// TestControllerKilled kills all replicas while pods are being admitted. All pods must be
// created, with one template for all.
func TestControllerKilled(t *testing.T) {
	f := setup(t, "killed")
	f.networks()
	f.owner(api.OwnerNadra)
	const pods = 20
	f.ApplyYAML(lab.Workload("Deployment", "burst", fmt.Sprintf("replicas: %d", pods), "lan", ""))
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		if f.created() == 0 {
			return errors.New("no pod is created")
		}
		return nil
	})
	f.killController()
	t.Logf("%d of %d pods were created when the controller was killed", f.created(), pods)
	f.one(f.templates(pods, "app=burst"))
	for _, p := range f.pods("burst", pods) {
		f.servedBy(api.OwnerNadra, p, 1)
	}
	f.Must(f.WaitController(f.Ctx))
}

// created returns the number of pods.
func (f *fixture) created() int {
	f.Helper()
	list, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	return len(list.Items)
}

// killController kills all replicas at once, and with them nadra-certificates, which is the
// same program. It finds them among the processes of the nodes.
func (f *fixture) killController() {
	f.Helper()
	const kill = `for p in /proc/[0-9]*; do
		if [ "$(readlink $p/exe)" = /nadra-controller ]; then kill -9 "${p#/proc/}" && echo killed; fi
	done`
	var all sync.WaitGroup
	var killed atomic.Int32
	for _, n := range f.Cluster.Nodes() {
		all.Go(func() {
			out, err := n.Exec(f.Ctx, "sh", "-c", kill)
			if err != nil {
				f.Error(err)
			}
			killed.Add(int32(strings.Count(string(out), "killed")))
		})
	}
	all.Wait()
	if want := int32(controllerReplicas + 1); killed.Load() != want {
		f.Errorf("%d processes were killed, want %d", killed.Load(), want)
	}
}

// TestManyPodsHaveOneTemplate creates pods of several workloads with the same networks,
// which must share one template.
func TestManyPodsHaveOneTemplate(t *testing.T) {
	f := setup(t, "many")
	f.networks()
	f.owner(api.OwnerNadra)
	const pods = 200
	// They only have to be created, and run nowhere.
	f.ApplyYAML(lab.Workload("Deployment", "many", fmt.Sprintf("replicas: %d", pods), "lan,fixed", "nodeSelector: {nowhere: to-be-found}"))
	f.one(f.templates(pods, "app=many"))
	f.empty("many")
}

// templates waits until there are so many pods, and returns the names of the templates that
// they reference, each with its number of pods.
func (f *fixture) templates(pods int, selector string) map[string]int {
	f.Helper()
	var out map[string]int
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		out = map[string]int{}
		for _, p := range list.Items {
			if len(p.Spec.ResourceClaims) != 1 || p.Spec.ResourceClaims[0].ResourceClaimTemplateName == nil {
				f.Fatalf("pod %s has the claims %+v", p.Name, p.Spec.ResourceClaims)
			}
			out[*p.Spec.ResourceClaims[0].ResourceClaimTemplateName]++
		}
		if len(list.Items) != pods {
			return fmt.Errorf("there are %d pods, want %d", len(list.Items), pods)
		}
		return nil
	})
	return out
}

// one checks that pods reference one template, and waits until it, and no other, exists: the
// controller's leader creates it after the first pod.
func (f *fixture) one(referred map[string]int) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).List(ctx, metav1.ListOptions{})
		if err == nil && (len(referred) != 1 || len(list.Items) != 1 || referred[list.Items[0].Name] == 0) {
			err = fmt.Errorf("pods refer to %v; there are the templates %v", referred, names(list.Items))
		}
		return err
	})
}

func names(templates []resourceapi.ResourceClaimTemplate) []string {
	var out []string
	for _, t := range templates {
		out = append(out, t.Name)
	}
	return out
}

// plainPod returns a pod as users write it, with the annotation unless that is empty.
func plainPod(namespace, name, annotation string) *corev1.Pod {
	pod := lab.Pod(namespace, name, "")
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	if annotation != "" {
		pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: annotation}
	}
	return pod
}

// noPods waits until there are no pods of a workload.
func (f *fixture) noPods(name string) error {
	return lab.Eventually(f.Ctx, time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("there are still pods of " + name)
		}
		return err
	})
}
