//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// staticPods is the folder of the kubelet's own pods, in the node.
const staticPods = "/var/tmp/static-pods"

// unmovable has pods that nobody may evict, or that nothing recreates: NODE is a node.
const unmovable = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: core}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, emptyDir: {}}]
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity], volumeMounts: [{name: data, mountPath: /data}]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db, namespace: core}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: db}}}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: core, labels: {app: bare}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: placed, namespace: core, labels: {app: placed}, annotations: {k8s.v1.cni.cncf.io/networks: n3@second}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: core}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
`

const staticPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"static","namespace":"core","labels":{"app":"static"},"annotations":{"k8s.v1.cni.cncf.io/networks":"n3"}},
"spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"main","image":"localhost/test:1","imagePullPolicy":"Never","command":["/bin/sleep","infinity"]}]}}`

// installUnmovable installs all workloads, and waits until Multus serves them.
func (f *fixture) installUnmovable() {
	f.Helper()
	f.install()
	f.addUnmovable(networked)
}

// addUnmovable installs the pods that nobody may evict, beside a number of other pods with networks, and
// waits until Multus serves all of them.
func (f *fixture) addUnmovable(others int) {
	f.Helper()
	f.afterFailure(func(f *fixture) {
		f.noStaticPods()
		f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	})
	nodes := f.nodes()
	f.Must(f.Apply(f.Ctx, strings.ReplaceAll(unmovable, "NODE", nodes[1])))
	f.Must(lab.WriteHostFile(f.node(nodes[0]), staticPods+"/static.json", []byte(staticPod), 0o644))
	const ofUnmovable = 2 + 1 + 1 + 2 + 1 // db, bare, placed, agent, static
	want := others + ofUnmovable
	f.areReady(want)
}

// areReady waits until so many pods with networks are ready.
func (f *fixture) areReady(want int) {
	f.Helper()
	f.Eventually(3*time.Minute, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app!=plain"})
		if err != nil {
			return err
		}
		if len(pods.Items) != want {
			return fmt.Errorf("%d pods, want %d", len(pods.Items), want)
		}
		for _, p := range pods.Items {
			if !lab.IsReady(&p) {
				return fmt.Errorf("pod %s is not ready", p.Name)
			}
		}
		return nil
	})
}

// noStaticPods removes the kubelets' own pods.
func (f *fixture) noStaticPods() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.sh(n, "rm -f "+staticPods+"/*.json")
	}
}
