package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// inspecting are the capabilities for reading network namespaces of pods, and running
// those for running plugins (docs/security/node-rights.md explains each).
var (
	inspecting = []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"}
	running    = []corev1.Capability{"DAC_OVERRIDE", "NET_ADMIN", "NET_RAW", "SYS_CHROOT"}
)

// applyFactor multiplies the timeout of a pod that runs plugins.
const applyFactor = 10

// nodes runs a pod on each Linux node that finds orphans and, with apply, frees them. The
// report of a node that does not answer has the reason.
func (c Cleaner) nodes(ctx context.Context, apply bool) ([]probe.OrphanReport, error) {
	nodes, err := nodepod.LinuxNodes(ctx, c.Kube)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Only {
		if !slices.Contains(nodes, name) {
			return nil, fmt.Errorf("reading --node: the cluster has no Linux node %q", name)
		}
	}
	dirs, err := c.networkDirs(ctx)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(name string) bool { return len(c.Only) > 0 && !slices.Contains(c.Only, name) })
	apply = apply && c.Namespace == "" // a node cannot tell the namespace of its orphans
	var out []probe.OrphanReport
	for _, r := range nodepod.OnEach(ctx, *c.Pods, nodes, func(node string) (probe.OrphanReport, error) { return c.node(ctx, node, dirs, apply) }) {
		if r.Err != nil {
			r.Report = probe.OrphanReport{Refused: r.Err.Error()}
		}
		r.Report.Node = r.Node
		out = append(out, r.Report)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspecting the nodes: %w", ctx.Err())
	}
	return out, nil
}

// node runs the pod on a node, and returns its report.
func (c Cleaner) node(ctx context.Context, name string, dirs []string, apply bool) (probe.OrphanReport, error) {
	var report probe.OrphanReport
	args := []string{"cleanup", "--host-root=" + nodepod.HostRoot, "--older-than=" + c.OlderThan.String(), "--network-dirs=" + strings.Join(dirs, ",")}
	args = append(args, c.NodeArgs...)
	if c.AllCNI {
		args = append(args, "--all-cni")
	}
	runner := *c.Pods
	pod := runner.Pod(name, args, inspecting...)
	if apply {
		runner.Timeout *= applyFactor
		pod = runner.WritingPod(name, append(args, "--apply"), slices.Concat(inspecting, running)...)
	}
	log, err := runner.Run(ctx, pod)
	if err != nil {
		return report, err
	}
	if err := probe.DecodeLast(log, "sandboxes", &report); err != nil {
		return report, fmt.Errorf("reading the pod's report: %w", err)
	}
	return report, nil
}

// networkDirs returns the nodes' directories of leases for the networks of all valid
// NetworkAttachmentDefinitions, sorted.
func (c Cleaner) networkDirs(ctx context.Context) ([]string, error) {
	var out []string
	list := c.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("").List
	err := kube.EachItem(ctx, kube.All, list, func(nad *nadv1.NetworkAttachmentDefinition) {
		network, err := attachment.ParseNetwork(nad)
		if err != nil {
			return
		}
		for _, p := range network.Plugins {
			if dir := p.IPAM.LeaseDir(network.CNIName); dir != "" && !strings.Contains(dir, ",") {
				out = append(out, dir)
			}
		}
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("listing NetworkAttachmentDefinitions: %w", err)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
