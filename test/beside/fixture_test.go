//go:build e2e

package beside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// multusMemory is the folder on the node's disk in which Multus records attachments.
const multusMemory = "/var/lib/cni/multus"

// half is a namespace whose pods one of the two serves.
type half struct{ namespace, owner string }

// networks are the NADs of both halves. A network has the same name in both, by which host-local
// keeps addresses: nadra and Multus draw from the same ranges.
const networks = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: blue}
spec:
  config: '{"cniVersion":"1.0.0","name":"beside-blue","type":"bridge","bridge":"br-beside","ipam":{"type":"host-local","subnet":"10.60.0.0/24"}}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: wan}
spec:
  config: '{"cniVersion":"0.3.1","name":"beside-wan","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.61.0.0/24"}}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: chained}
spec:
  config: '{"cniVersion":"1.0.0","name":"beside-chained","plugins":[
    {"type":"bridge","bridge":"br-beside","ipam":{"type":"host-local","subnet":"10.62.0.0/24"}},
    {"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}}]}'
`

// kind is a workload, and what its pods have as name@interface.
type kind struct {
	name, annotation string
	networks         []string
}

var kinds = []kind{
	{name: "plain"},
	{"one", "blue", []string{"blue@net1"}},
	{"two", "wan,blue@lan", []string{"wan@net1", "blue@lan"}},
	{"asked", `[{"name":"wan","interface":"up"},{"name":"blue"}]`, []string{"wan@up", "blue@net2"}},
	{"chain", "chained", []string{"chained@net1"}},
}

// fixture is a test whose two namespaces must leave nothing in the cluster or on the node.
type fixture struct {
	lab.Fixture
	node   *cluster.Node
	halves []half
	// ofMultus is false while Multus is removed: nobody could attach the pods of its half.
	ofMultus bool
}

func setup(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	f := &fixture{
		Fixture:  lab.Fixture{Lab: theLab, T: t, Ctx: ctx},
		node:     theLab.Cluster.Node(1),
		ofMultus: true,
		halves:   []half{{"beside-multus", api.OwnerMultus}, {"beside-nadra", api.OwnerNadra}},
	}
	for _, h := range f.halves {
		f.Must(f.CreateNamespace(ctx, h.namespace))
		if h.owner == api.OwnerNadra {
			f.Must(f.Label(ctx, "namespace/"+h.namespace, h.owner))
		}
		f.NS = h.namespace
		f.ApplyYAML(networks)
	}
	f.Must(f.Published(ctx, "beside-nadra/blue", "beside-nadra/wan", "beside-nadra/chained"))
	t.Cleanup(func() {
		if t.Failed() {
			f.logState()
		}
		for _, h := range f.halves {
			if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", h.namespace, "--timeout=120s"); err != nil {
				t.Errorf("after the test: %v", err)
			}
		}
	})
	return f
}

// state is what attachments leave on a node and in the cluster.
type state struct {
	lab.Snapshot
	claims []string
}

func (f *fixture) state(ctx context.Context) (s state, err error) {
	if s.Snapshot, err = lab.TakeSnapshot(f.node); err != nil {
		return s, err
	}
	claims, err := f.Kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, err
	}
	for _, c := range claims.Items {
		s.claims = append(s.claims, "claim "+c.Namespace+"/"+c.Name)
	}
	return s, nil
}

// left lists what was not there before. Multus' own files do not count: it keeps one of a sandbox whose ADD
// its daemon was killed in, and those of pods that end while it is removed.
func (s state) left(before state) []string {
	out := s.Added(before.Snapshot)
	for _, claim := range s.claims {
		if !slices.Contains(before.claims, claim) {
			out = append(out, claim)
		}
	}
	return slices.DeleteFunc(out, func(what string) bool { return what == "link br-beside" })
}

// leftBehind waits until nothing is left, and returns what is after the limit.
func (f *fixture) leftBehind(before state, limit time.Duration) (left []string) {
	f.Helper()
	err := lab.Eventually(f.Ctx, limit, func(ctx context.Context) error {
		now, err := f.state(ctx)
		if err != nil {
			return err
		}
		if left = now.left(before); len(left) > 0 {
			return fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return nil
	})
	if err != nil && len(left) == 0 {
		f.Must(err)
	}
	return left
}

// defaultAddresses are host-local's files of the cluster's default network.
const defaultAddresses = "/run/cni-addresses/default/[0-9]*"

// freeDefaultAddresses frees the addresses of the default network of sandboxes that are gone. Multus
// v4.3.0 frees none: it passes the plugins a DEL without the ranges of the configuration, which
// host-local refuses. A node's range would be full after some 250 pods.
func (f *fixture) freeDefaultAddresses() error {
	live := map[string]bool{}
	for _, c := range lab.NewContainers(f.node).List() {
		live[c.Sandbox] = true
	}
	pattern, err := f.node.HostPath(defaultAddresses)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if sandbox, _, _ := strings.Cut(string(content), "\r\n"); !live[strings.TrimSpace(sandbox)] {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logState logs the state of both namespaces and of nadra.
func (f *fixture) logState() {
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "resourceclaims", "-A"},
		{"get", "events", "-A", "--field-selector=type=Warning", "-o", "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
	} {
		out, err := f.Cluster.Kubectl(f.Ctx, args...)
		if err != nil {
			out += err.Error()
		}
		f.Logf("kubectl %s\n%.8000s", strings.Join(args, " "), out)
	}
	f.Logf("%s\n%s", f.DriverLog(f.Ctx), f.ControllerLog(f.Ctx))
}
