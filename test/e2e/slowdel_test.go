//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// witness is a plugin before another in a chain. Its DEL, which runs after the other's,
// records whether the pod's interface is still in its network namespace.
const witness = `input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD) echo "$input" | sed 's/.*"prevResult"://; s/,"type":"witness"}$//' ;;
DEL) { echo "$CNI_NETNS"; nsenter --net="$CNI_NETNS" ip -o link show "$CNI_IFNAME" || true; } >>/run/witness 2>&1 ;;
esac`

// dawdle is a plugin whose DEL takes longer than the runtime waits for it.
const dawdle = `input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD) echo "$input" | sed 's/.*"prevResult"://; s/,"type":"dawdle"}$//' ;;
DEL) ns=$CNI_NETNS; while [ -e "$ns" ] && [ "${ns#/proc}" = "$ns" ]; do sleep 0.1; done ;;
esac`

// TestDELHasTheNamespaceThatTheRuntimeRemoved runs a DEL that takes longer than the hook of
// a stopped sandbox (--hook-budget), after which containerd removes the path of the network
// namespace. The later DELs must still have the namespace: bridge, for example, learns from
// the interface which rules of ipMasq to remove. CRI-O removes the namespace before the
// first DEL.
func TestDELHasTheNamespaceThatTheRuntimeRemoved(t *testing.T) {
	f := setup(t, "slow-del")
	f.bridge("br-slow-del")
	installPlugin(t, "witness", witness)
	installPlugin(t, "dawdle", dawdle)
	f.undo = append(f.undo, "rm -f /run/witness")
	f.nad("blue", `{"cniVersion":"1.0.0","name":"slow-del","plugins":[
		{"type":"bridge","bridge":"br-slow-del","ipam":{"type":"host-local","subnet":"10.73.0.0/24"}},{"type":"witness"},{"type":"dawdle"}]}`)
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "web", "web"))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, pod.Name, 2*time.Minute)
	f.Must(err)
	f.Must(f.DeletePod(f.Ctx, f.NS, pod.Name))
	want := "/proc/self/fd/3\n"
	if f.node.Runtime().RemovesNamespaceFirst() {
		want = "\n" // the namespace is gone before the first DEL, which is given none
	}
	var seen string
	f.Eventually(time.Minute, func(context.Context) error {
		if seen = f.sh("cat /run/witness 2>/dev/null || true"); !strings.Contains("\n"+seen, "\n"+want) {
			return fmt.Errorf("no DEL was given the namespace %q; plugins saw %q", want, seen)
		}
		return nil
	})
	if _, kept, _ := strings.Cut(seen, want); want != "\n" && (!strings.Contains(kept, "net1") || strings.Contains(kept, "does not exist")) {
		t.Errorf("the interface is not in the namespace that the DEL was given: %s", kept)
	}
	f.Eventually(time.Minute, func(context.Context) error {
		if left := f.sh("ls /var/lib/cni/networks/slow-del | grep ^10 || true"); left != "" {
			return fmt.Errorf("addresses that are left: %s", left)
		}
		return nil
	})
}
