package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
)

// Workload returns a manifest as users of Multus write it: nothing in it names nadra. Its
// pods have the label app=name and request networks by annotation.
func Workload(kind, name, spec, annotation, podSpec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s}
spec:
  %[3]s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata:
      labels: {app: %[2]s}
      annotations: {k8s.v1.cni.cncf.io/networks: '%[4]s'}
    spec:
      %[5]s
      terminationGracePeriodSeconds: 5
      containers:
        - name: main
          image: localhost/test:1
          imagePullPolicy: Never
          command: [/bin/sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]
`, kind, name, spec, annotation, podSpec)
}

// Code returns a code as texts of nadra contain it: errors, Events, conditions, refusals.
func Code(c reason.Code) string { return "[" + string(c) + "]" }

// IsReady reports whether a pod is Ready and not being deleted.
func IsReady(p *corev1.Pod) bool {
	return p != nil && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// MakeLink creates an interface on a node that networks can have as master. The interface is up from the start: a pod
// that waits for it may take it into its own namespace at once.
func MakeLink(ctx context.Context, n *cluster.Node, name string) error {
	_, err := n.Exec(ctx, "sh", "-ec", strings.ReplaceAll("ip link add X up type veth peer name Xp; ip link set Xp up", "X", name))
	return err
}

// LinkAtBoot returns a function for cluster.Options that makes an interface at every boot of a node.
func LinkAtBoot(name string) func(context.Context, *cluster.Node) error {
	return func(ctx context.Context, n *cluster.Node) error { return MakeLink(ctx, n, name) }
}

// Label sets the owner of a node or namespace, "node/name" or "namespace/name",
// and removes the label if owner is empty.
func (l *Lab) Label(ctx context.Context, object, owner string) error {
	value := api.OwnerLabel + "=" + owner
	if owner == "" {
		value = api.OwnerLabel + "-"
	}
	_, err := l.Cluster.Kubectl(ctx, "label", "--overwrite", object, value)
	return err
}
