package snapshot

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nameLabel marks the short-lived pods of `verify --canary` and of --probe, which
// snapshots leave out.
const nameLabel = "app.kubernetes.io/name"

var toolPods = []string{"nadra-canary", "nadra-probe"}

// Build builds a snapshot. The same input gives the same bytes.
func Build(in Input) *Snapshot {
	s := &Snapshot{
		APIVersion: APIVersion, Kind: Kind, Taken: in.Taken, Source: in.Source, Namespace: in.Namespace, Selector: in.Selector,
		Pods: []Pod{},
	}
	rows := map[string][]inspect.Attachment{}
	for _, a := range inspect.Attachments(in.Input) {
		rows[a.Namespace+"/"+a.Pod] = append(rows[a.Namespace+"/"+a.Pod], a)
	}
	for _, pod := range in.Pods {
		of := rows[pod.Namespace+"/"+pod.Name]
		networked := len(of) > 0 || attachment.ShowsNetworks(pod)
		switch {
		case !networked || slices.Contains(toolPods, pod.Labels[nameLabel]):
		case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
			s.Pods = append(s.Pods, in.podOf(pod, of))
		case !attachment.IsOver(pod):
			s.NotRunning = append(s.NotRunning, in.notRunning(pod))
		}
	}
	slices.SortFunc(s.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(s.NotRunning, func(a, b NotRunning) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.Networks = in.networksOf(s.Pods)
	known := index(s)
	for i := range s.Pods {
		s.Pods[i].addDerived(known)
	}
	in.addObserved(s)
	return s
}

// podOf records a running pod.
func (in *Input) podOf(pod *corev1.Pod, rows []inspect.Attachment) Pod {
	w := in.workloadOf(pod)
	out := Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName,
		Workload: w, Ordinal: ordinalOf(pod, w), HostNetwork: pod.Spec.HostNetwork, Interfaces: []Interface{},
	}
	out.addInterfaces(pod, rows)
	in.addRequested(&out, pod, rows)
	out.Devices = in.devicesOf(pod)
	out.Env = specVariables(pod)
	return out
}

// notRunning records a pod that does not run, with what it waits for.
func (in *Input) notRunning(pod *corev1.Pod) NotRunning {
	out := NotRunning{Namespace: pod.Namespace, Name: pod.Name, Workload: in.workloadOf(pod), Phase: string(cmp.Or(pod.Status.Phase, corev1.PodPending))}
	if pod.DeletionTimestamp != nil {
		out.Phase = "Terminating"
		return out
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if wait := s.State.Waiting; wait != nil && out.Why == "" {
			out.Why = wait.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out.Why = cmp.Or(c.Message, c.Reason)
		}
	}
	return out
}
