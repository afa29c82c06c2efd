package live

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/cleanup"
	probelive "github.com/nadra-dev/nadra/internal/probe/live"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// hostLocalDir is where host-local keeps what it gave out, unless a network says
// otherwise.
const hostLocalDir = "/var/lib/cni/networks"

// applyFactor is how much longer a pod may take that runs plugins.
const applyFactor = 10

// nodes has a pod on each Linux node look, and free if it is to. A node without
// an answer is refused.
func (c Cleaner) nodes(ctx context.Context, apply bool) ([]cleanup.NodeReport, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name == name }) {
			return nil, fmt.Errorf("reading --node: there is no node %q", name)
		}
	}
	dirs, err := c.networkDirs(ctx)
	if err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(list.Items, func(n corev1.Node) bool {
		os := n.Status.NodeInfo.OperatingSystem
		return os != "" && os != "linux" || !c.on(n.Name)
	})
	out := make([]cleanup.NodeReport, len(nodes))
	var group errgroup.Group
	group.SetLimit(probelive.AtOnce)
	for i := range nodes {
		group.Go(func() error {
			name := nodes[i].Name
			// What is of one namespace only cannot be told apart on a node.
			report, err := c.node(ctx, name, dirs, apply && c.Namespace == "")
			if err != nil {
				report = cleanup.NodeReport{Refused: err.Error()}
			}
			report.Node = name
			out[i] = report
			return nil
		})
	}
	_ = group.Wait() // none returns one
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking at the nodes: %w", ctx.Err())
	}
	return out, nil
}

// node has a pod on one node answer.
func (c Cleaner) node(ctx context.Context, name string, dirs []string, apply bool) (cleanup.NodeReport, error) {
	var report cleanup.NodeReport
	args := []string{"cleanup", "--host-root=" + probelive.HostRoot, "--older-than=" + c.OlderThan.String(), "--network-dirs=" + strings.Join(dirs, ",")}
	args = append(args, c.NodeArgs...)
	if c.AllCNI {
		args = append(args, "--all-cni")
	}
	runner := *c.Pods
	pod := runner.Pod(name, args, "SYS_ADMIN", "SYS_PTRACE")
	if apply {
		runner.Timeout *= applyFactor
		pod = runner.Pod(name, append(args, "--apply"))
		Privileged(pod)
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

// Privileged gives a pod all rights on its node: the plugins that DEL runs act on
// the host as its own.
func Privileged(pod *corev1.Pod) {
	container := &pod.Spec.Containers[0]
	container.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true), RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(true)}
	container.VolumeMounts = []corev1.VolumeMount{{
		Name: "host", MountPath: probelive.HostRoot, MountPropagation: ptr.To(corev1.MountPropagationHostToContainer),
	}}
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
