//go:build e2e

package dropin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// lateProgram is macvlan, but fails as long as a file with the network's name is missing: at once, or after some
// seconds if the network's name begins with slow.
const lateProgram = `#!/bin/sh
conf=$(cat)
name=$(printf %s "$conf" | sed -n 's/.*"name": *"\([^"]*\)".*/\1/p')
if [ "$CNI_COMMAND" = ADD ] && [ ! -e /run/mended/"$name" ]; then
	case $name in slow*) sleep 3;; esac
	echo '{"cniVersion":"1.0.0","code":100,"msg":"the cause is still there"}'
	exit 1
fi
printf %s "$conf" | "$(dirname "$0")"/macvlan
`

// cause is a network that fails for a while, and a pod of it on each node.
type cause struct {
	name  string
	lasts time.Duration
	// mended is when it ended.
	mended time.Time
	// recovered has how long after that each node's pod was Ready.
	recovered map[*cluster.Node]time.Duration
}

// kubeletRetry is the longest time between two tries of a pod by the kubelet, and that until the pod is Ready.
const kubeletRetry = 15*time.Second + 5*time.Second

// TestRecovery lets a network fail for a while and measures how long after that its pods are Ready, with the kubelet's
// default back-off: at most one retry of the kubelet later, as under Multus, however long it has failed, quickly or
// slowly. RECOVERY_SECONDS says for how long; 5, 30 and 85 by default.
func TestRecovery(t *testing.T) {
	t.Cleanup(func() { // after the fixture's own, which still needs the program
		for _, n := range theLab.Cluster.Nodes() {
			if _, err := n.Exec(context.Background(), "rm", "-rf", "/run/mended", "/opt/cni/bin/late"); err != nil {
				t.Error(err)
			}
		}
	})
	f := setup(t, "recovery")
	var causes []*cause
	for _, text := range strings.Split(cmp.Or(os.Getenv("RECOVERY_SECONDS"), "5,30,85"), ",") {
		seconds, err := strconv.Atoi(text)
		f.Must(err)
		for _, kind := range []string{"quick", "slow"} {
			causes = append(causes, &cause{name: kind + "-" + text, lasts: time.Duration(seconds) * time.Second, recovered: map[*cluster.Node]time.Duration{}})
		}
	}
	for _, n := range f.Cluster.Nodes() {
		f.sh(n, "mkdir -p /run/mended; cat > /opt/cni/bin/late <<'END'\n"+lateProgram+"END\nchmod 755 /opt/cni/bin/late")
	}
	for i, c := range causes {
		f.ApplyYAML(fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: %[1]s}\nspec:\n  config: '%[2]s'", c.name,
			fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"late","master":"lan0","ipam":{"type":"host-local","subnet":"10.77.%d.0/24"}}`, c.name, i)))
	}
	begun := time.Now()
	for _, c := range causes {
		f.ApplyYAML(lab.Workload("DaemonSet", c.name, "", c.name, ""))
	}
	for len(causes) > 0 {
		for _, c := range causes {
			if c.mended.IsZero() && time.Since(begun) > c.lasts {
				c.mended = time.Now()
				for _, n := range f.Cluster.Nodes() {
					f.sh(n, "touch /run/mended/"+c.name)
				}
			}
			f.watchRecovery(c)
		}
		causes = slices.DeleteFunc(causes, func(c *cause) bool {
			if len(c.recovered) < 2 {
				return false
			}
			multus, nadra := c.recovered[f.multus], c.recovered[f.nadra]
			t.Logf("recovery: cause=%s multus=%.1fs nadra=%.1fs", c.name, multus.Seconds(), nadra.Seconds())
			if limit := max(multus, kubeletRetry); nadra > limit {
				t.Errorf("%s: nadra's pod was Ready %s after the cause was gone, at most %s was expected", c.name, nadra, limit)
			}
			return true
		})
		time.Sleep(100 * time.Millisecond)
		f.Must(f.Ctx.Err())
	}
}

// watchRecovery records which pods of a mended cause are Ready. It refuses a pod that was so before, and one that has
// lost a container.
func (f *fixture) watchRecovery(c *cause) {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{LabelSelector: "app=" + c.name})
	f.Must(err)
	for _, p := range pods.Items {
		if !lab.IsReady(&p) {
			continue
		}
		n := f.NodeOf(&p)
		if c.mended.IsZero() {
			f.Fatalf("pod %s is Ready without its network", p.Name)
		}
		if _, known := c.recovered[n]; known {
			continue
		}
		c.recovered[n] = time.Since(c.mended)
		lost := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.RestartCount > 0 || s.LastTerminationState.Terminated != nil
		})
		if lost {
			f.Errorf("pod %s has lost a container: %+v", p.Name, p.Status.ContainerStatuses)
		}
	}
}
