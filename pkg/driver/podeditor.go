package driver

import (
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// podEditor makes the networks of one running pod what its annotation asks for. The caller holds
// the pod's lock while it changes them.
type podEditor struct {
	owner         *owner
	policies      *namespacePolicies
	store         *checkpoint.Store
	attacher      *attach.Attacher
	planner       *planner
	watch         *podWatch
	networkStatus *networkstatus.Writer
	claimStatus   *claimstatus.Writer
	metadata      *metadataFiles
	report        *reporter
	failures      editFailures
	annotation    networksReader
}

// due reports whether the annotation of a sandbox's pod may ask for a change.
func (e *podEditor) due(s liveSandbox) bool {
	pod := e.watch.Find(s.Pod)
	return pod != nil && pod.DeletionTimestamp == nil && !s.static && e.owner.owned() && podedit.Due(e.podOf(s, pod))
}

// podOf describes a pod for the decision what an edit changes.
func (e *podEditor) podOf(s liveSandbox, pod *metav1.PartialObjectMetadata) podedit.Pod {
	records := e.recordsOf(s.Sandbox)
	shown, _ := networkstatus.Shown(pod.Annotations[nadv1.NetworkStatusAnnot]) // nadra replaces a text that cannot be read
	return podedit.Pod{
		Namespace: s.Pod.Namespace, Baseline: baselineOf(records, s.Sandbox), Annotation: e.annotation.text(pod.Annotations),
		Records: records, Shown: shown, OwnStatus: e.watch.hasOwnStatus(s.Pod),
	}
}

// recordsOf returns the records of a pod without those that exist for another sandbox.
func (e *podEditor) recordsOf(s attachment.Sandbox) []checkpoint.Record {
	return slices.DeleteFunc(e.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool { return r.Unclaimed() && !checkpoint.InSandbox(s.ID)(r) })
}

// baselineOf returns the annotation of which an edit is a change: the one that was there when the
// pod's claims were first attached, or else when the sandbox was made.
func baselineOf(records []checkpoint.Record, s attachment.Sandbox) string {
	for _, r := range records {
		if r.Baseline != nil {
			return *r.Baseline
		}
	}
	if s.Networks == nil {
		return ""
	}
	return *s.Networks
}
