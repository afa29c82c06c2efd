package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Probe runs a short-lived pod on each node that describes it.
type Probe struct {
	// Pods runs the pods. Without an image they run the driver's.
	Pods nodepod.Runner
	// BinDirs are the directories of CNI plugins. Empty means the driver's.
	BinDirs string
}

// Remedies for nodes that cannot be probed.
const (
	remedyNamespace = "an existing --probe-namespace in which pods may be privileged, and the right to create, get and delete pods there and to get pods/log"
	remedyImage     = "an --image with nadra-node"
)

// Run probes the Linux nodes of caps and adds their reports. Its pods are deleted when it
// returns.
func (p Probe) Run(ctx context.Context, caps *Capabilities) error {
	p.Pods = caps.Nadra.Pods(p.Pods)
	// Gaps of an earlier run no longer count.
	caps.Gaps = slices.DeleteFunc(caps.Gaps, func(g Gap) bool { return g.Part == PartProbe })
	if p.Pods.Image == "" {
		caps.Gaps = append(caps.Gaps, Gap{Part: PartProbe, Reason: "there is no image to run, because nadra is not installed in namespace " + p.Pods.Namespace, Remedy: remedyImage})
		return nil
	}
	nodes := map[string]*Node{}
	var names []string
	for i := range caps.Nodes {
		if node := &caps.Nodes[i]; nodepod.IsLinux(node.OS) {
			nodes[node.Name] = node
			names = append(names, node.Name)
		}
	}
	for _, r := range nodepod.OnEach(ctx, p.Pods, names, func(node string) (*probe.Report, error) { return p.node(ctx, node, caps.Nadra) }) {
		if r.Err == nil {
			nodes[r.Node].Probe = r.Report
			continue
		}
		caps.Gaps = append(caps.Gaps, Gap{Part: PartProbe, Node: r.Node, Reason: "probing: " + firstLine(r.Err), Remedy: remedyNamespace})
	}
	slices.SortStableFunc(caps.Gaps, func(a, b Gap) int { return strings.Compare(a.Part+a.Node, b.Part+b.Node) })
	if ctx.Err() != nil {
		return fmt.Errorf("probing the nodes: %w", ctx.Err())
	}
	return nil
}

// node runs the pod on a node and returns its report.
func (p Probe) node(ctx context.Context, node string, nadra *Nadra) (*probe.Report, error) {
	log, err := p.Pods.Run(ctx, p.Pods.Pod(node, p.args(nadra)))
	if err != nil {
		return nil, err
	}
	return probe.Decode[probe.Report](log, probe.Kind)
}
