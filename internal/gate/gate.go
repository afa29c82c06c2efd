// Package gate decides whether a container may start: only if every attachment of its pod
// is recorded for exactly this sandbox and this network namespace, and listed in the pod's
// network-status.
//
// nadra-gate links the package and runs once per container start, so it imports only the
// standard library and pkg/api/reason. It reads the records that pkg/checkpoint writes by
// its own types; a test compares the two.
package gate

import (
	"encoding/json"
	"fmt"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// formatVersion is the latest version of the records that the package reads.
const formatVersion = 2

// Where identifies the place in which the container is about to start.
type Where struct {
	// SandboxID is the runtime's. It is empty if the runtime does not name it.
	SandboxID string
	// Cookie is that of the network namespace (SO_NETNS_COOKIE). It is unique until the
	// node reboots, unlike the namespace's inode number, which is used again at once.
	Cookie uint64
	// BootID identifies the boot of the node.
	BootID string
	// Pod is the pod's namespace/name, for messages about claims without records. It is
	// empty if the runtime does not name it.
	Pod string
}

// Verdict is a decision about a container.
type Verdict int

// The verdicts.
const (
	// Go: every attachment is there.
	Go Verdict = iota
	// Wait: an attachment may still come.
	Wait
	// Refuse: an attachment will not come.
	Refuse
)

type claimFile struct {
	Version int      `json:"version"`
	Records []record `json:"records"`
}

type record struct {
	Phase string `json:"phase"`
	// Refusal is why waiting for this attachment is useless.
	Refusal string `json:"refusal"`
	BootID  string `json:"bootID"`
	// StatusStored: the pod's network-status lists the attachment, or containers do not
	// wait for it.
	StatusStored bool `json:"statusStored"`
	// DeviceOnly: there is nothing to attach.
	DeviceOnly bool `json:"deviceOnly"`
	// Removed: an edit of the pod's annotation has removed the network.
	Removed bool `json:"removed"`
	// LiveIn is the sandbox to which an edit has added the network while containers could run.
	LiveIn  string `json:"liveIn"`
	Sandbox *struct {
		ID     string `json:"id"`
		Cookie uint64 `json:"netNSCookie"`
	} `json:"sandbox"`
	Pod struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"pod"`
	Attachment struct {
		Interface string `json:"interface"`
		Network   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"network"`
	} `json:"attachment"`
}

// Decide judges one claim by its file. data is nil without a file. An attachment that will
// not come counts before one that may. cause has a reason code unless the verdict is Go;
// the kubelet's event on the pod shows it whole.
func Decide(data []byte, here Where) (verdict Verdict, cause error) {
	if data == nil {
		return Refuse, reason.Errorf(reason.GateNoRecord, "%sthe claim is not prepared on this node: the pod is being deleted, or the driver's state was removed", here.prefix())
	}
	var f claimFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Refuse, reason.Errorf(reason.GateRecordUnreadable, "%sreading the claim's records: %w", here.prefix(), err)
	}
	if f.Version < 1 || f.Version > formatVersion || len(f.Records) == 0 {
		return Refuse, reason.Errorf(reason.GateRecordUnreadable, "%sthe claim's records are of format version %d with %d entries; this gate reads versions up to %d",
			here.prefix(), f.Version, len(f.Records), formatVersion)
	}
	for _, r := range f.Records {
		code, text := r.lacks(here)
		switch {
		case code == "":
		case r.Refusal != "" && (r.BootID == "" || r.BootID == here.BootID): // otherwise the driver tries again in this boot
			return Refuse, r.refused()
		case verdict == Go:
			verdict, cause = Wait, reason.Errorf(code, "%s%s", r.prefix(), text)
		}
	}
	return verdict, cause
}

// prefix names the pod in front of a message.
func (w Where) prefix() string {
	if w.Pod == "" {
		return ""
	}
	return "pod " + w.Pod + ": "
}

// prefix names the attachment and its phase in front of a message.
func (r record) prefix() string {
	return fmt.Sprintf("pod %s/%s: network %s/%s (%s), phase %s: ", r.Pod.Namespace, r.Pod.Name,
		r.Attachment.Network.Namespace, r.Attachment.Network.Name, r.Attachment.Interface, r.Phase)
}

// refused returns the driver's reason for an attachment that will not come. It keeps the
// code of that reason, which is the cause, and only adds one if there is none.
func (r record) refused() error {
	code := reason.In(r.Refusal)
	if code == "" {
		return reason.Errorf(reason.GateNotAttached, "%s%s", r.prefix(), r.Refusal)
	}
	return refusal{code, r.prefix() + r.Refusal}
}

// refusal is an error whose text has its code already.
type refusal struct {
	code reason.Code
	text string
}

func (r refusal) Error() string           { return r.text }
func (r refusal) ReasonCode() reason.Code { return r.code }

// lacks returns why the record does not prove an attachment here, and "" if it does.
func (r record) lacks(here Where) (code reason.Code, text string) {
	switch {
	case r.DeviceOnly, r.Removed, r.LiveIn != "" && r.LiveIn == here.SandboxID:
		return "", ""
	case r.Phase == "Attaching":
		return reason.AttachRunning, "its plugins are still running, or the driver died while they did"
	case r.Phase != "Attached" || r.Sandbox == nil:
		return reason.GateNotAttached, "the driver has not attached it: check that it runs on this node, and is connected to the container runtime"
	case r.BootID != here.BootID:
		return reason.GateStaleAttachment, "it was attached before the node was rebooted"
	case r.Sandbox.Cookie == 0 || r.Sandbox.Cookie != here.Cookie:
		return reason.GateStaleAttachment, "it is attached in another network namespace, of sandbox " + r.Sandbox.ID
	case here.SandboxID != "" && r.Sandbox.ID != here.SandboxID:
		return reason.GateStaleAttachment, "it is attached in another sandbox, " + r.Sandbox.ID
	case !r.StatusStored:
		return reason.StatusNotStored, "it is attached, but the API server has not stored the pod's network-status, which lists it"
	}
	return "", ""
}
