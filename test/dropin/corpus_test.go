//go:build e2e

package dropin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// charts are installations of other projects whose networks this kernel can run. They are
// applied unmodified, except for "imagePullPolicy: Always", because there is no registry to
// pull from.
var charts = []struct {
	name  string // the namespace, which some files have
	files []string
	// besides has objects that the installation expects.
	besides string
	master  string // of its networks; none: that of the node's default route
	pods    int
	picked  []string // interfaces with addresses of host-local
}{{
	// A router of a 5G transport network, as rendered from its chart. Its Deployment has a
	// field of StatefulSets, which kubectl ignores here.
	name:  "xrd",
	files: []string{"git-shassan__xrd-public/02-nad.yaml", "git-shassan__xrd-public/01-deployment.yaml"},
	besides: `
apiVersion: v1
kind: ServiceAccount
metadata: {name: xrd-sa}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: xrd-control-plane-config}
data: {startup.cfg: ""}
`,
	pods: 1,
}, {
	// Endpoints behind a load balancer for telco signalling, one of which requests its
	// default route on the additional network.
	name: "loxilb",
	files: []string{
		"loxilb-io__loxilb/01-macvlan.yaml", "loxilb-io__loxilb/02-multus-pod.yaml", "loxilb-io__loxilb/04-multus-seagull-pod.yaml",
	},
	master: "eth2", pods: 2, picked: []string{"net1"},
}}

// TestChartsOfOthers runs installations of other projects under Multus and under nadra, and
// compares their pods.
func TestChartsOfOthers(t *testing.T) {
	dir := os.Getenv("NADRA_CORPUS")
	if dir == "" {
		t.Skip("NADRA_CORPUS is not set: no real manifests to read")
	}
	for _, c := range charts {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, c.name)
			if c.master != "" {
				f.links = append(f.links, c.master)
				for _, n := range f.Cluster.Nodes() {
					f.Must(lab.MakeLink(f.Ctx, n, c.master))
				}
			}
			if c.besides != "" {
				f.ApplyYAML(c.besides)
			}
			var manifests []string
			for _, file := range c.files {
				content, err := os.ReadFile(filepath.Join(dir, file))
				f.Must(err)
				manifests = append(manifests, strings.ReplaceAll(string(content), "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"))
			}
			manifest := strings.Join(manifests, "\n---\n")
			f.nameTestImage(manifest)

			before := f.run(api.OwnerMultus, manifest, c.pods, c.picked)
			after := f.run(api.OwnerNadra, manifest, c.pods, c.picked)
			for i := range before {
				f.equal("the pod that asks for "+strings.Join(strings.Fields(before[i].asked), " "), before[i].Side, after[i].Side, before[i].asked)
			}
		})
	}
}

type observed struct {
	compare.Side
	asked string
}

// run installs a manifest for one of the owners, replaces its pods, and describes the new
// pods, in the order of their names.
func (f *fixture) run(owner, manifest string, count int, picked []string) []observed {
	f.Helper()
	f.owner(owner)
	f.Kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=60s")
	_, err := f.Cluster.KubectlInput(f.Ctx, manifest, "-n", f.NS, "apply", "--validate=warn", "-f", "-")
	f.Must(err)
	var pods []corev1.Pod
	f.Must(lab.Eventually(f.Ctx, time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods = list.Items
		if len(pods) != count || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !lab.IsReady(&p) }) {
			return fmt.Errorf("not all of %d pods are ready", count)
		}
		return nil
	}))
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var out []observed
	for _, p := range pods {
		f.servedBy(owner, &p, 1)
		out = append(out, observed{f.side(&p, picked...), p.Annotations[nadv1.NetworkAttachmentAnnot]})
	}
	return out
}

var imageField = regexp.MustCompile(`(?m)^\s*-?\s*image:\s*"?([^"\s]+)`)

// nameTestImage gives the test image the names of the images in a manifest. None
// of them is in Docker's own registry, whose name may be left out.
func (f *fixture) nameTestImage(manifest string) {
	f.Helper()
	for _, m := range imageField.FindAllStringSubmatch(manifest, -1) {
		for _, n := range f.Cluster.Nodes() {
			f.Must(n.Runtime().TagImage(f.Ctx, cluster.TestImage, m[1]))
		}
	}
}
