//go:build e2e

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// ofNadra has pods that start on nadra's nodes: of a Deployment, with claims, and one on NODE that can have
// none.
const ofNadra = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: claimed, namespace: core}
spec:
  replicas: 2
  selector: {matchLabels: {own: claimed}}
  template:
    metadata: {labels: {own: claimed}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: own-placed, namespace: core, labels: {own: unclaimed}, annotations: {k8s.v1.cni.cncf.io/networks: "n3,n3@second"}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
`

// ownPods are pods that nadra has attached without a claim, beside adopted ones.
type ownPods struct {
	*fixture
	pods    []corev1.Pod
	before  map[string]observation
	packets *traffic
}

// startOwn starts pods on nadra's nodes, with and without claims, and sends packets to those without.
func (f *fixture) startOwn(placed, static string) *ownPods {
	f.Helper()
	f.Must(f.Apply(f.Ctx, strings.ReplaceAll(ofNadra, "NODE", placed)))
	text := strings.NewReplacer(`"name":"static"`, `"name":"own-static"`, `"app":"static"`, `"own":"unclaimed"`).Replace(staticPod)
	f.Must(lab.WriteHostFile(f.node(static), staticPods+"/own-static.json", []byte(text), 0o644))
	f.Eventually(2*time.Minute, func(ctx context.Context) error { return f.ownAreReady(ctx, true) })
	o := &ownPods{fixture: f}
	list, err := f.Kube.CoreV1().Pods(namespace).List(f.Ctx, metav1.ListOptions{LabelSelector: "own=unclaimed"})
	f.Must(err)
	o.pods = list.Items
	o.before = f.observed(o.pods)
	o.packets = f.begin(f.aims(o.pods), func(string) bool { return true })
	return o
}

// ownAreReady returns an error unless all pods of startOwn are ready, and those of the Deployment have claims,
// or not.
func (f *fixture) ownAreReady(ctx context.Context, claims bool) error {
	list, err := f.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "own"})
	if err != nil {
		return err
	}
	for _, p := range list.Items {
		switch has := len(p.Spec.ResourceClaims) > 0; {
		case !lab.IsReady(&p) || p.DeletionTimestamp != nil:
			return fmt.Errorf("pod %s is not ready", p.Name)
		case has != (claims && p.Labels["own"] == "claimed"):
			return fmt.Errorf("pod %s has a claim: %t", p.Name, has)
		}
		if _, err := f.NetworkStatus(ctx, p.Namespace, p.Name); err != nil {
			return err
		}
	}
	if len(list.Items) != 2+1+1 {
		return fmt.Errorf("%d pods, want 2 with claims, a placed one and a static one", len(list.Items))
	}
	return nil
}

// areOfMultus waits until Multus, and not nadra, is to detach the networks of all of these pods, and checks that
// nothing has changed in those without a claim. Those with claims were evicted.
func (o *ownPods) areOfMultus() {
	o.Helper()
	o.Eventually(2*time.Minute, func(ctx context.Context) error { return o.ownAreReady(ctx, false) })
	for _, p := range o.pods {
		id := o.before[p.Name].Sandbox
		o.Eventually(time.Minute, func(ctx context.Context) error {
			out, err := o.NodeOf(&p).Exec(ctx, "sh", "-c", strings.ReplaceAll(custodians, "STATE", stateDir))
			has := strings.Split(string(out), "\n")
			switch {
			case err != nil:
			case !slices.Contains(has, "multus "+id):
				err = errors.New("Multus has no file of it")
			case slices.Contains(has, "taken "+id), slices.Contains(has, "record "+id):
				err = errors.New("nadra has it, too")
			}
			if err != nil {
				err = fmt.Errorf("sandbox %.12s of pod %s: %w", id, p.Name, err)
			}
			return err
		})
	}
	o.same("given to Multus")
}

// same checks that nothing has changed in the pods without a claim.
func (o *ownPods) same(when string) {
	o.Helper()
	if diff := cmp.Diff(o.before, o.observed(o.pods)); diff != "" {
		o.Fatalf("nadra's own pods, %s (-before +now):\n%s", when, diff)
	}
}
