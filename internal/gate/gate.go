// Package gate decides whether a container may start: only when every
// attachment of its pod is recorded as made for exactly this sandbox and this
// network namespace, and as listed in the pod's network-status.
//
// It is linked into a program that runs once per container start, and so
// depends on nothing but the standard library. It reads the records that
// pkg/checkpoint writes by a view of its own; a test holds the two together.
package gate

import (
	"encoding/json"
	"fmt"
)

// FormatVersion is the version of the records that this view understands.
const FormatVersion = 1

// Where identifies the place in which the container is about to start.
type Where struct {
	// SandboxID is the runtime's; empty where the runtime does not tell.
	SandboxID string
	// Cookie is that of the network namespace (SO_NETNS_COOKIE). It is unique
	// for the life of the node, unlike the namespace's inode number, which is
	// used again at once.
	Cookie uint64
	// BootID identifies that life.
	BootID string
	// Pod is the pod's namespace/name, for messages about claims that have no
	// records; empty where the runtime does not tell.
	Pod string
}

// Verdict says what to do.
type Verdict int

// The verdicts.
const (
	// Go: every attachment is there.
	Go Verdict = iota
	// Wait: it may still come.
	Wait
	// Refuse: it will not come.
	Refuse
)

type claimFile struct {
	Version int      `json:"version"`
	Records []record `json:"records"`
}

type record struct {
	Phase string `json:"phase"`
	// Refusal is why it is not worth waiting for this attachment.
	Refusal string `json:"refusal"`
	BootID  string `json:"bootID"`
	// StatusStored says that the pod's network-status lists the attachment, or
	// that containers do not wait for it.
	StatusStored bool `json:"statusStored"`
	// DeviceOnly says that nothing is attached.
	DeviceOnly bool `json:"deviceOnly"`
	Sandbox    *struct {
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

// Decide judges by one claim's file. data is nil when there is none. An
// attachment that will not come counts before one that may. reason says in
// words why it is not Go; the kubelet's event on the pod shows it whole.
func Decide(data []byte, here Where) (verdict Verdict, reason string) {
	if data == nil {
		return Refuse, here.of("the claim is not prepared on this node: the pod is being deleted, or the driver's state was removed")
	}
	var f claimFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Refuse, here.of(fmt.Sprintf("the claim's records cannot be read: %v", err))
	}
	if f.Version != FormatVersion || len(f.Records) == 0 {
		return Refuse, here.of(fmt.Sprintf("the claim's records are of format version %d with %d entries; this gate reads version %d",
			f.Version, len(f.Records), FormatVersion))
	}
	for _, r := range f.Records {
		why := r.lacks(here)
		switch {
		case why == "":
		case r.Refusal != "":
			return Refuse, r.says(r.Refusal)
		case verdict == Go:
			verdict, reason = Wait, r.says(why)
		}
	}
	return verdict, reason
}

// of puts the pod before a message.
func (w Where) of(message string) string {
	if w.Pod == "" {
		return message
	}
	return "pod " + w.Pod + ": " + message
}

// says puts the attachment and its phase before a message.
func (r record) says(message string) string {
	return fmt.Sprintf("pod %s/%s: network %s/%s (%s), phase %s: %s", r.Pod.Namespace, r.Pod.Name,
		r.Attachment.Network.Namespace, r.Attachment.Network.Name, r.Attachment.Interface, r.Phase, message)
}

// lacks says why the record does not vouch for an attachment here; empty if it
// does.
func (r record) lacks(here Where) string {
	switch {
	case r.DeviceOnly:
		return ""
	case r.Phase == "Attaching":
		return "its plugins are still running, or the driver died while they did"
	case r.Phase != "Attached" || r.Sandbox == nil:
		return "the driver has not attached it; is it running on this node, and connected to the container runtime?"
	case r.BootID != here.BootID:
		return "it was attached before the node was rebooted"
	case r.Sandbox.Cookie == 0 || r.Sandbox.Cookie != here.Cookie:
		return fmt.Sprintf("it is attached in another network namespace, of sandbox %s", r.Sandbox.ID)
	case here.SandboxID != "" && r.Sandbox.ID != here.SandboxID:
		return fmt.Sprintf("it is attached in another sandbox, %s", r.Sandbox.ID)
	case !r.StatusStored:
		return "it is attached, but the pod's network-status, which lists it, is not stored by the API server yet"
	}
	return ""
}
