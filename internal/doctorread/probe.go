package doctorread

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Probe has a short-lived pod look at each node.
type Probe struct {
	Cluster
	// Namespace is where the pods are made; it must let them see the host.
	Namespace string
	// Image is that of nadra-node; empty takes that of the driver that runs.
	Image string
	// BinDirs are the directories of CNI plugins; empty takes the driver's.
	BinDirs string
	// Timeout is how long one pod may take.
	Timeout time.Duration
	// Poll is how often a pod is asked for; the zero value is for tests.
	Poll time.Duration
}

// remedies of what keeps a node from being probed.
const (
	remedyNamespace = "--probe-namespace names one that exists and in which pods may be privileged, and the right to create, get and delete pods there and to get pods/log"
	remedyImage     = "--image names one with nadra-node"
)

// Run probes the Linux nodes among those that were read, and adds what they say.
// Its pods are gone when it returns.
func (p Probe) Run(ctx context.Context, caps *doctor.Capabilities) error {
	if p.Image == "" && caps.Nadra != nil {
		p.Image = caps.Nadra.Image
	}
	// What kept nodes from being probed before is no longer so.
	caps.Gaps = slices.DeleteFunc(caps.Gaps, func(g doctor.Gap) bool { return g.Part == doctor.PartProbe })
	if p.Image == "" {
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Reason: "there is no image to run, since nadra is not installed", Remedy: remedyImage})
		return nil
	}
	nodes := map[string]*doctor.Node{}
	var names []string
	for i := range caps.Nodes {
		if node := &caps.Nodes[i]; nodepod.IsLinux(node.OS) {
			nodes[node.Name] = node
			names = append(names, node.Name)
		}
	}
	for _, a := range nodepod.Ask(ctx, p.runner(caps.Nadra), names, func(node string) (*probe.Report, error) { return p.node(ctx, node, caps.Nadra) }) {
		if a.Err == nil {
			nodes[a.Node].Probe = a.Reported
			continue
		}
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Node: a.Node, Reason: "probing: " + firstLine(a.Err), Remedy: remedyNamespace})
	}
	slices.SortStableFunc(caps.Gaps, func(a, b doctor.Gap) int { return strings.Compare(a.Part+a.Node, b.Part+b.Node) })
	if ctx.Err() != nil {
		return fmt.Errorf("probing the nodes: %w", ctx.Err())
	}
	return nil
}

// node has a pod look at a node.
func (p Probe) node(ctx context.Context, node string, nadra *doctor.Nadra) (*probe.Report, error) {
	log, err := p.runner(nadra).Run(ctx, p.pod(node, nadra))
	if err != nil {
		return nil, err
	}
	return probe.Decode(log)
}
