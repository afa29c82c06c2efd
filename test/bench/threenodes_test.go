package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// The nodes of the cluster that nadra, Multus and a bare DRA driver are compared on, by
// number.
const (
	nadraNode = 1
	thickNode = 2
	thinNode  = 3
	bareNode  = 4
)

// lan is the master of macvlan networks on all nodes.
const lan = "lan0"

// trio is the cluster of these nodes.
type trio struct {
	*lab.Lab
	// nothing is the path of the plugin that does nothing, possibly for a while.
	nothing string
}

// threeNodes starts the cluster: nadra on the first node, thick Multus as a DaemonSet, as most clusters
// have it, on the second, Multus without a daemon on the third, and on the fourth a DRA
// driver that does nothing. The kubelets are configured as in other lanes, except that they
// retry at the kubelet's own default intervals.
func threeNodes(b *testing.B) *trio {
	b.Helper()
	t := &trio{}
	multus, err := lab.MultusArchive(b.Context(), runDir, os.Stderr)
	must(b, err)
	t.nothing, err = cluster.Program{
		Suite: "bench", Name: "nothing", Package: "./test/bench/nothing", Sources: []string{"test/bench/nothing/*.go"},
	}.Build(b.Context(), os.Stderr)
	must(b, err)
	must(b, writeAuditPolicy())
	t.Lab = useLab(b, cluster.Options{
		Nodes:         4,
		ImageArchives: []string{multus},
		KubeletConfig: map[string]any{"syncFrequency": "1m"},
		APIServerArgs: auditArgs(),
		OnBoot:        lab.LinkAtBoot(lan),
	}, func(l *lab.Lab) error {
		t.Lab = l
		if err := t.install(b.Context()); err != nil {
			return err
		}
		t.startBare(b)
		return nil
	})
	return t
}

// install restricts nadra to the first node and installs Multus on the next ones.
func (t *trio) install(ctx context.Context) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":%q}}}}}`, t.Cluster.Node(nadraNode).Name())
	if _, err := t.Cluster.Kubectl(ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "-p", patch); err != nil {
		return err
	}
	if _, err := t.Cluster.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s"); err != nil {
		return err
	}
	for _, n := range t.Cluster.Nodes() {
		if err := n.InstallPlugin("nothing", t.nothing); err != nil {
			return err
		}
	}
	if err := t.InstallMultus(ctx, t.Cluster.Node(thickNode)); err != nil {
		return err
	}
	thin, err := cluster.BuildMultus(ctx, os.Stderr)
	if err != nil {
		return err
	}
	return t.Cluster.Node(thinNode).Multus().InstallThin(ctx, thin)
}

// nodeReady waits until the node is Ready and has no taints.
func (t *trio) nodeReady(ctx context.Context, node *cluster.Node) error {
	return lab.Eventually(ctx, podTime, func(ctx context.Context) error {
		n, err := t.Kube.CoreV1().Nodes().Get(ctx, node.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("%s has the taint %s", n.Name, n.Spec.Taints[0].Key)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%s is not Ready", n.Name)
	})
}

// auditPolicy makes the API server log the metadata of requests, without their bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    resources: [{group: coordination.k8s.io}]
  - level: Metadata
`

func auditFile() string { return filepath.Join(runDir, "audit.log") }

func writeAuditPolicy() error {
	return os.WriteFile(filepath.Join(runDir, "audit-policy.yaml"), []byte(auditPolicy), 0o600)
}

func auditArgs() []string {
	return []string{"--audit-policy-file=" + filepath.Join(runDir, "audit-policy.yaml"), "--audit-log-path=" + auditFile()}
}
