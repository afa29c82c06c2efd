package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// noteAnnotation keeps the note on the driver's namespace, because it cannot be read from
// the driver's DaemonSet after that is deleted.
const noteAnnotation = prefix + "uninstall"

// Note has the image and the arguments of pods on nodes.
type Note struct {
	Image string   `json:"image"`
	Args  []string `json:"args,omitempty"`
}

// Noted returns the note of an earlier run; empty without one.
func (u Uninstaller) Noted(ctx context.Context) (Note, error) {
	var note Note
	ns, err := u.Kube.CoreV1().Namespaces().Get(ctx, u.Where.Driver, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && ns.Annotations[noteAnnotation] == "" {
		return note, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(ns.Annotations[noteAnnotation]), &note)
	}
	if err != nil {
		return note, fmt.Errorf("reading annotation %s of namespace %s: %w", noteAnnotation, u.Where.Driver, err)
	}
	return note, nil
}

// saveNote creates the namespace of pods on nodes, and saves the note there.
func (u Uninstaller) saveNote(ctx context.Context) error {
	if u.DryRun != "" {
		return nil
	}
	if err := u.ensureNamespace(ctx); err != nil {
		return err
	}
	note, err := json.Marshal(Note{u.Pods.Image, u.NodeArgs})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{noteAnnotation: string(note)}}})
	if err == nil {
		_, err = u.Kube.CoreV1().Namespaces().Patch(ctx, u.Where.Driver, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("saving the image on namespace %s: %w", u.Where.Driver, err)
	}
	return nil
}

// ensureNamespace creates the namespace of pods on nodes, if it is gone.
func (u Uninstaller) ensureNamespace(ctx context.Context) error {
	_, err := u.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: u.Where.Driver, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s for pods on nodes: %w", u.Where.Driver, err)
	}
	return u.await(ctx, "namespace "+u.Where.Driver, func(ctx context.Context) (string, error) {
		_, err := u.Kube.CoreV1().ServiceAccounts(u.Where.Driver).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "it has no service account", nil
		}
		return "", err
	})
}

// records returns attachments and pending DELs on nodes.
func (u Uninstaller) records(ctx context.Context) ([]probe.Record, error) {
	if u.DryRun == "client" {
		u.Say("nodes are not inspected: use --dry-run=server")
		return nil, nil
	}
	if u.DryRun == "" {
		if err := u.ensureNamespace(ctx); err != nil {
			return nil, err
		}
	}
	reports, err := u.ask(ctx, false)
	var out []probe.Record
	for _, r := range reports {
		out = append(out, r.Report.Records...)
	}
	return out, err
}

// cleanNodes removes nadra's files from nodes.
func (u Uninstaller) cleanNodes(ctx context.Context) error {
	if u.DryRun == "client" {
		return nil
	}
	reports, err := u.ask(ctx, u.DryRun == "")
	var left []translate.Finding
	for _, n := range reports {
		paths := strings.Join(n.Report.Paths, ", ")
		switch {
		case n.Err != nil: // ask returns it
		case len(n.Report.Records) > 0 && u.DryRun == "":
			left = append(left, inUse(facts{Records: n.Report.Records})...)
		case paths == "":
		case n.Report.Removed:
			u.Say("node %s: removed %s", n.Node, paths)
		default:
			u.Say("node %s: %s would be removed", n.Node, paths)
		}
	}
	if err == nil && len(left) > 0 {
		err = &InUseError{left}
	}
	return err
}

// ask runs a pod on each Linux node, and returns their reports in the order of the nodes. It fails if one does not
// answer.
func (u Uninstaller) ask(ctx context.Context, remove bool) ([]nodepod.Result[probe.Remains], error) {
	nodes, err := nodepod.LinuxNodes(ctx, u.Kube)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(name string) bool { return slices.Contains(u.Exclude, name) })
	out := nodepod.OnEach(ctx, *u.Pods, nodes, func(node string) (probe.Remains, error) { return u.node(ctx, node, remove) })
	for _, r := range out {
		for i := range r.Report.Records {
			r.Report.Records[i].Node = r.Node
		}
		err = errors.Join(err, r.Err)
	}
	return out, err
}

// node runs a pod on a node, and returns its report.
func (u Uninstaller) node(ctx context.Context, name string, remove bool) (probe.Remains, error) {
	args := append([]string{"uninstall", "--host-root=" + nodepod.HostRoot}, u.NodeArgs...)
	pod := u.Pods.Pod(name, args)
	if remove {
		pod = u.Pods.WritingPod(name, append(args, "--remove"))
	}
	var report probe.Remains
	log, err := u.Pods.Run(ctx, pod)
	if err == nil {
		err = probe.DecodeLast(log, "records", &report)
	}
	if err == nil && report.Error != "" {
		err = errors.New(report.Error)
	}
	if err != nil {
		return report, fmt.Errorf("inspecting node %s: %w: to leave it out, use --exclude-node", name, err)
	}
	return report, nil
}
