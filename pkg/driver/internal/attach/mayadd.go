package attach

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// While so many DELs of a pod, or of a namespace's pods, are pending, no ADD begins for it. One sandbox may leave the
// first number, and a full node the second while an IPAM plugin is away.
const (
	mostOfPod       = v1alpha1.MaxNetworks
	mostOfNamespace = 8 * mostOfPod
)

// tooManyPending refuses an ADD while as many DELs are pending as a pod, or a namespace on a node, may leave.
// Otherwise a network whose ADD and DEL both fail, which a tenant can write, would leave one with each sandbox.
func tooManyPending(pending []checkpoint.PendingDEL, pod attachment.PodRef) error {
	ofPod, ofNamespace := 0, 0
	for _, del := range pending {
		switch other := del.Record.Pod; {
		case other.UID == pod.UID:
			ofPod++
		case other.Namespace == pod.Namespace:
			ofNamespace++
		}
	}
	if ofPod < mostOfPod && ofPod+ofNamespace < mostOfNamespace {
		return nil
	}
	return reason.Errorf(reason.PendingDEL, "%d DELs of pod %s and %d of other pods of its namespace are pending on the node, %d and %d together are the most: "+
		"its networks are attached after one of them succeeds", ofPod, pod, ofNamespace, mostOfPod, mostOfNamespace)
}

// checkNames refuses interface names that the sandbox has already. It runs before the
// records need a DEL, because a DEL would remove an interface that is not nadra's, such as
// eth0.
func checkNames(links []string, pending []checkpoint.PendingDEL, todo []checkpoint.Record, sandboxID string) error {
	i := slices.IndexFunc(todo, func(r checkpoint.Record) bool { return slices.Contains(links, r.Attachment.Interface) })
	if i < 0 {
		return nil
	}
	return &networkError{todo[i], nameError(pending, todo[i].Attachment, sandboxID)}
}

// nameError returns why a network cannot get its interface name, which the sandbox has
// already. If the interface is nadra's, left by a try whose DEL is pending, the error has
// that DEL's cause.
func nameError(pending []checkpoint.PendingDEL, at attachment.Attachment, sandboxID string) error {
	for _, del := range pending {
		if checkpoint.InSandbox(sandboxID)(del.Record) && del.Record.Attachment.Interface == at.Interface {
			return reason.Errorf(reason.PendingDEL, "adding network %s as %s: the pod still has this interface from an earlier try, whose DEL is pending: %s",
				at.Network, at.Interface, del.Cause)
		}
	}
	return reason.Errorf(reason.InterfaceExists, "adding network %s as %s: the pod has an interface of this name already: "+
		"choose another name in the claim's interface field", at.Network, at.Interface)
}
