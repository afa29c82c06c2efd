package reason

// Reasons of the Events that nadra sends. AddedInterface is also Multus' reason for an
// attached interface, and the reasons for interfaces of running pods are those of its dynamic
// networks controller. The message of a warning carries a Code.
const (
	// On pods.
	EventAddedInterface          = "AddedInterface"
	EventFailedPrepareNetwork    = "FailedPrepareNetwork"
	EventAttachingNetwork        = "AttachingNetwork"
	EventFailedAttachNetwork     = "FailedAttachNetwork"
	EventFailedReleaseNetwork    = "FailedReleaseNetwork"
	EventFailedNoClaim           = "FailedNoClaim"
	EventAttachedWithoutClaim    = "AttachedWithoutClaim"
	EventFailedAddingInterface   = "FailedAddingInterface"
	EventRemovedInterface        = "RemovedInterface"
	EventFailedRemovingInterface = "FailedRemovingInterface"
	EventNetworkStatusLate       = "NetworkStatusLate"
	EventFailedCheckNetwork      = "FailedCheckNetwork"
	EventCheckedNetwork          = "CheckedNetwork"
	EventTemplateMissing         = "TemplateMissing"
	// On NetworkAttachmentDefinitions.
	EventNetworkUnavailable       = "NetworkUnavailable"
	EventNetworkAvailable         = "NetworkAvailable"
	EventNoDeviceClass            = "NoDeviceClass"
	EventDeviceClassNameShortened = "DeviceClassNameShortened"
	EventNetworkIdentifierTaken   = "NetworkIdentifierTaken"
	// On Nodes.
	EventNetworksOwned       = "NetworksOwned"
	EventNetworksReleased    = "NetworksReleased"
	EventNetworksAdopted     = "NetworksAdopted"
	EventFailedAdoptNetwork  = "FailedAdoptNetwork"
	EventNetworkStateDamaged = "NetworkStateDamaged"
	EventResourcePoolRefused = "ResourcePoolRefused"
	EventResourcePoolServed  = "ResourcePoolServed"
)

// LateAnnotation is the remedy for a pod whose annotation another webhook has added after nadra's webhook was
// asked, for which pods without the annotation are of no interest.
const LateAnnotation = "if another webhook adds the annotation, label the namespace nadra.dev/owner=nadra: nadra's webhook is then asked again"

// WithoutClaim is why a pod's networks are attached without a claim.
const WithoutClaim = "Static pods, pods with spec.nodeName, and pods under nadra.dev/claims=never get no claim; " + LateAnnotation

// The condition of an allocated device in a claim's status.devices, and its reasons. The
// message of a condition that is not true carries a Code.
const (
	ConditionReady = "Ready"

	ConditionAttached      = "Attached"
	ConditionPrepareFailed = "PrepareFailed"
	ConditionAttachFailed  = "AttachFailed"
	ConditionCheckFailed   = "CheckFailed"
	ConditionDetached      = "Detached"
)
