package driver

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// The bounds that docs/reference/sizing.md states, in bytes.
const (
	boundOfPod = 2 << 20
	boundOfNAD = 64 << 10
)

// largeNAD returns a NAD that is as long as a request to the API server may be, and whose configuration
// is at the limit of what is parsed, or beyond it.
func largeNAD(i int, beyond bool) *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("net-%d", i),
		Annotations: map[string]string{"other": strings.Repeat("a", 200<<10)},
		Labels:      map[string]string{"other": strings.Repeat("a", 63)},
	}}
	const conf = `{"cniVersion":"1.0.0","type":"bridge","x":%q}`
	nad.Spec.Config = fmt.Sprintf(conf, strings.Repeat("x", v1alpha1.MaxNetworkConfig-len(conf)-8))
	if beyond {
		nad.Spec.Config += strings.Repeat(" ", 500<<10)
	}
	return nad
}

// grown returns by how much the heap has grown after make, which returns what stays.
func grown(t *testing.T, make func() any) int {
	t.Helper()
	before := heap()
	kept := make()
	after := heap()
	runtime.KeepAlive(kept)
	return after - before
}

// TestMemoryOfNADs checks the bound for 1,000 NADs, half of them beyond the limit.
func TestMemoryOfNADs(t *testing.T) {
	const nads = 1000
	got := grown(t, func() any {
		var kept []any
		for i := range nads {
			nad := largeNAD(i, i%2 == 0)
			attachment.Slim(nad)
			network, err := attachment.ParseNetwork(nad)
			if (err != nil) != (i%2 == 0) {
				t.Fatalf("NAD %d: %v", i, err)
			}
			kept = append(kept, nad, network)
		}
		return kept
	})
	if got > nads*boundOfNAD {
		t.Errorf("%d NADs take %d bytes, more than %d each", nads, got, boundOfNAD)
	}
	t.Logf("%d bytes for each NAD", got/nads)
}

// TestMemoryOfAttachedPods checks the bound for the pods of a node, whose annotations are at the limit: what the
// watch keeps of them and what is recorded of their networks, as it is read from the disk after a restart.
func TestMemoryOfAttachedPods(t *testing.T) {
	const pods = 110
	nad := largeNAD(0, false)
	chain := strings.Repeat(`,{"type":"tuning"}`, v1alpha1.MaxPlugins-1)
	nad.Spec.Config = `{"cniVersion":"1.0.0","plugins":[` + nad.Spec.Config[:len(nad.Spec.Config)-2-len(chain)-40] + `"}` + chain + `]}`
	network, err := attachment.ParseNetwork(nad)
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Repeat("y", v1alpha1.MaxAnnotation/v1alpha1.MaxNetworks-80)
	annotation := "[" + strings.TrimSuffix(strings.Repeat(`{"name":"net-0","cni-args":{"k":"`+args+`"}},`, v1alpha1.MaxNetworks), ",") + "]"
	selections, err := attachment.ParseSelections(annotation, "default")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := attachment.NewPlan(selections, func(attachment.NetworkRef) (attachment.Network, error) { return network, nil })
	if err != nil {
		t.Fatal(err)
	}
	var records []checkpoint.Record
	for i, a := range plan {
		records = append(records, checkpoint.Record{Prepared: attachment.Prepared{Index: i, Attachment: a}, Phase: checkpoint.Attached})
	}
	file, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	slim := slimPod
	got := grown(t, func() any {
		var kept []any
		for i := range pods {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i), Annotations: map[string]string{
				attachment.NetworksAnnotation: strings.Clone(annotation), attachment.OwnNetworksAnnotation: strings.Repeat("a,", 60<<10),
				"other": strings.Repeat("a", 100<<10),
			}}}
			known, err := slim(pod)
			if err != nil {
				t.Fatal(err)
			}
			var read []checkpoint.Record
			if err := json.Unmarshal(file, &read); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, known, read)
		}
		return kept
	})
	if got > pods*boundOfPod {
		t.Errorf("%d pods take %d bytes, more than %d each", pods, got, boundOfPod)
	}
	t.Logf("%d bytes for each pod", got/pods)
}
