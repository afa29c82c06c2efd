package cleanuprun

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// hostLocalDir is where host-local keeps what it gave out, unless a network says
// otherwise.
const hostLocalDir = "/var/lib/cni/networks"

// look are the capabilities that it takes to look into network namespaces of
// others, plugins those that plugins have from the driver as well
// (docs/threat-model.md has what each is for).
var (
	look    = []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"}
	plugins = []corev1.Capability{"DAC_OVERRIDE", "NET_ADMIN", "NET_RAW", "SYS_CHROOT"}
)

// applyFactor is how much longer a pod may take that runs plugins.
const applyFactor = 10

// nodes has a pod on each Linux node look, and free if it is to. A node without
// an answer is refused.
func (c Cleaner) nodes(ctx context.Context, apply bool) ([]cleanup.NodeReport, error) {
	nodes, err := nodepod.LinuxNodes(ctx, c.Kube)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Only {
		if !slices.Contains(nodes, name) {
			return nil, fmt.Errorf("reading --node: there is no node %q with Linux", name)
		}
	}
	dirs, err := c.networkDirs(ctx)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(name string) bool { return !c.on(name) })
	// What is of one namespace only cannot be told apart on a node.
	apply = apply && c.Namespace == ""
	var out []cleanup.NodeReport
	for _, a := range nodepod.Ask(ctx, *c.Pods, nodes, func(node string) (cleanup.NodeReport, error) { return c.node(ctx, node, dirs, apply) }) {
		if a.Err != nil {
			a.Said = cleanup.NodeReport{Refused: a.Err.Error()}
		}
		a.Said.Node = a.Node
		out = append(out, a.Said)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking at the nodes: %w", ctx.Err())
	}
	return out, nil
}

// node has a pod on one node answer.
func (c Cleaner) node(ctx context.Context, name string, dirs []string, apply bool) (cleanup.NodeReport, error) {
	var report cleanup.NodeReport
	args := []string{"cleanup", "--host-root=" + nodepod.HostRoot, "--older-than=" + c.OlderThan.String(), "--network-dirs=" + strings.Join(dirs, ",")}
	args = append(args, c.NodeArgs...)
	if c.AllCNI {
		args = append(args, "--all-cni")
	}
	runner := *c.Pods
	pod := runner.Pod(name, args, look...)
	if apply {
		runner.Timeout *= applyFactor
		pod = runner.Writing(name, append(args, "--apply"), slices.Concat(look, plugins)...)
	}
	log, err := runner.Run(ctx, pod)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(log, &report); err != nil {
		return report, fmt.Errorf("reading what the pod says: %s", strings.TrimSpace(string(log)))
	}
	return report, nil
}

// networkDirs are host-local's directories for the networks of all
// NetworkAttachmentDefinitions, sorted. What cannot be parsed has none.
func (c Cleaner) networkDirs(ctx context.Context) ([]string, error) {
	nads, err := c.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("").List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing NetworkAttachmentDefinitions: %w", err)
	}
	var out []string
	for i := range nads.Items {
		network, err := attachment.ParseNetwork(&nads.Items[i])
		if err != nil {
			continue
		}
		for _, p := range network.Plugins {
			if p.IPAM != "host-local" || strings.ContainsAny(network.CNIName+p.DataDir, ",") {
				continue
			}
			dir := p.DataDir
			if dir == "" {
				dir = hostLocalDir
			}
			out = append(out, path.Join(dir, network.CNIName))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
