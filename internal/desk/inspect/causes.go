package inspect

import (
	"cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const (
	seeDriver = "Look at the driver's pods and their events: kubectl get pods -A -l app.kubernetes.io/name=nadra-node -o wide."
	noDriver  = "Install or repair nadra's driver there. " + seeDriver
	// retried follows remedies for causes outside of the pod.
	retried = "The pod need not be deleted: nadra tries again by itself."
	// retriedCorrected follows remedies of a failing ADD.
	retriedCorrected = "nadra tries again by itself, with the NetworkAttachmentDefinition as it is then."
	passes           = "Wait: the cause goes away by itself."
)

// explain returns a step for a message. The message's reason code decides what to do.
// Messages of other components have no code: the texts of foreign are looked up in them,
// and rest is the advice for all other messages.
func explain(message string, foreign []foreignText, rest advice) Step {
	entry, known := reason.Lookup(reason.Cause(message))
	switch text, found := lookup(message, foreign); {
	case known && passing(entry):
		return waiting(message, entry.Owner, cmp.Or(entry.Remedy, passes))
	case found && (!known || quotesPlugin(entry.Code)):
		return failed(message, text.owner, text.remedy)
	case known && runsPlugins(entry):
		return failed(message, entry.Owner, entry.Remedy+" "+retriedCorrected)
	case known && outside(entry.Owner):
		return failed(message, entry.Owner, entry.Remedy+" "+retried)
	case known:
		return failed(message, entry.Owner, entry.Remedy)
	}
	return failed(message, rest.owner, rest.remedy)
}

// passing reports whether a cause goes away by itself, or within a time.
func passing(e reason.Entry) bool { return e.Remedy == "" || e.Code == reason.AttachRunning }

// quotesPlugin reports whether messages with the code end in a CNI plugin's message.
func quotesPlugin(code reason.Code) bool {
	return code == reason.PluginFailed || code == reason.AttachTimeout || code == reason.PendingDEL
}

// runsPlugins reports whether the next attempt runs an ADD. After PendingDEL it runs a DEL first.
func runsPlugins(e reason.Entry) bool {
	return e.Stage == reason.Attach && e.Owner == reason.OfPlugin && e.Code != reason.PendingDEL
}

// outside reports whether what an owner repairs is not part of the pod, which then stays.
func outside(owner reason.Owner) bool {
	return owner == reason.OfNetwork || owner == reason.OfCluster || owner == reason.OfNode || owner == reason.OfPlugin
}
