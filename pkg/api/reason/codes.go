package reason

// Codes of networks that a node does not offer. Prepare refuses with them, too, if the
// scheduler has chosen the node before.
const (
	NetworkInvalid  Code = "NetworkInvalid"
	ConfigMissing   Code = "ConfigMissing"
	MasterMissing   Code = "MasterMissing"
	PluginMissing   Code = "PluginMissing"
	PluginUnhealthy Code = "PluginUnhealthy"
	StatusPending   Code = "StatusPending"
	PoolDevice      Code = "PoolDevice"
	NodeNotOwned    Code = "NodeNotOwned"
)

// Codes of resource pools that a node does not serve as they are defined.
const (
	PoolMissing  Code = "PoolMissing"
	PoolInvalid  Code = "PoolInvalid"
	PoolConflict Code = "PoolConflict"
	LinkDown     Code = "LinkDown"
)

// Codes of pods that the webhook refuses.
const (
	NotConvertible         Code = "NotConvertible"
	OwnerContradiction     Code = "OwnerContradiction"
	OwnerUnclear           Code = "OwnerUnclear"
	DefaultNetworksInvalid Code = "DefaultNetworksInvalid"
	TemplateNotCreated     Code = "TemplateNotCreated"
	TemplateNotFound       Code = "TemplateNotFound"
	ObjectNotRead          Code = "ObjectNotRead"
	ControllerBug          Code = "ControllerBug"
)

// Codes of claims that the node driver does not prepare. The webhook refuses pods and
// claims with those of them that can be seen so early.
const (
	RuntimeNotConnected   Code = "RuntimeNotConnected"
	NetworkNotFound       Code = "NetworkNotFound"
	ClaimInvalid          Code = "ClaimInvalid"
	ClaimNotAllocated     Code = "ClaimNotAllocated"
	ClaimNotReserved      Code = "ClaimNotReserved"
	ClaimShared           Code = "ClaimShared"
	ClaimUnprepared       Code = "ClaimUnprepared"
	ClaimIncomplete       Code = "ClaimIncomplete"
	OtherClaimFailed      Code = "OtherClaimFailed"
	ContainerWithoutClaim Code = "ContainerWithoutClaim"
	PodNotRead            Code = "PodNotRead"
	AnnotationInvalid     Code = "AnnotationInvalid"
	LimitExceeded         Code = "LimitExceeded"
	InterfaceConflict     Code = "InterfaceConflict"
	AddressConflict       Code = "AddressConflict"
	RouteConflict         Code = "RouteConflict"
	NamespaceIsolation    Code = "NamespaceIsolation"
	DeviceInUse           Code = "DeviceInUse"
	DeviceGone            Code = "DeviceGone"
	DeviceMismatch        Code = "DeviceMismatch"
	DeviceUnsuitable      Code = "DeviceUnsuitable"
	StateNotWritten       Code = "StateNotWritten"
	StateDamaged          Code = "StateDamaged"
	StateOfLaterVersion   Code = "StateOfLaterVersion"
)

// Codes of sandboxes and containers whose networks are not attached.
const (
	NoClaim            Code = "NoClaim"
	OwnerUnknown       Code = "OwnerUnknown"
	PluginFailed       Code = "PluginFailed"
	PluginTimeout      Code = "PluginTimeout"
	DeviceNotInPod     Code = "DeviceNotInPod"
	InterfaceExists    Code = "InterfaceExists"
	AddressDuplicate   Code = "AddressDuplicate"
	PendingDEL         Code = "PendingDEL"
	GatewayUnreachable Code = "GatewayUnreachable"
	HostNetwork        Code = "HostNetwork"
	SandboxUnspecified Code = "SandboxUnspecified"
	NamespaceGone      Code = "NamespaceGone"
	KernelTooOld       Code = "KernelTooOld"
	AttachRunning      Code = "AttachRunning"
	AttachNotBegun     Code = "AttachNotBegun"
	AttachTimeout      Code = "AttachTimeout"
	AttachCancelled    Code = "AttachCancelled"
	OtherNetworkFailed Code = "OtherNetworkFailed"
	StatusNotStored    Code = "StatusNotStored"
	EditRefused        Code = "EditRefused"
)

// Codes with which the gate refuses a container, besides those of the driver.
const (
	GateNoRecord         Code = "GateNoRecord"
	GateRecordUnreadable Code = "GateRecordUnreadable"
	GateNotAttached      Code = "GateNotAttached"
	GateStaleAttachment  Code = "GateStaleAttachment"
	GateBadInput         Code = "GateBadInput"
)

// Codes with which kubectl nadra upgrade stops or refuses. The state of the upgrade in the
// cluster has them, too.
const (
	UpgradeRunning             Code = "UpgradeRunning"
	LeaseLost                  Code = "LeaseLost"
	NoNodeForPods              Code = "NoNodeForPods"
	PodNotRecreated            Code = "PodNotRecreated"
	DrainTimeout               Code = "DrainTimeout"
	MultusPodRemains           Code = "MultusPodRemains"
	MultusPodNotReady          Code = "MultusPodNotReady"
	LastConfiguration          Code = "LastConfiguration"
	NotAdopted                 Code = "NotAdopted"
	NotReturned                Code = "NotReturned"
	MultusConfigurationMissing Code = "MultusConfigurationMissing"
	DriverNotServing           Code = "DriverNotServing"
	CanaryFailed               Code = "CanaryFailed"
	NetworksLost               Code = "NetworksLost"
	PodsNotReady               Code = "PodsNotReady"
)

// Codes of the administrator's other tools: of pods that kubectl nadra runs on nodes, of
// nodes that refuse to be cleaned up, and of refusals to uninstall nadra.
const (
	NodePodRefused       Code = "NodePodRefused"
	NodePodTimeout       Code = "NodePodTimeout"
	SandboxesUnknown     Code = "SandboxesUnknown"
	CheckpointUnreadable Code = "CheckpointUnreadable"
	OtherDELFailed       Code = "OtherDELFailed"
	NadraInUse           Code = "NadraInUse"
	InstalledByHelm      Code = "InstalledByHelm"
	DriverRunning        Code = "DriverRunning"
	ControllerRunning    Code = "ControllerRunning"
)

// Codes of attachments that are being deleted, or were changed.
const (
	DELFailed         Code = "DELFailed"
	DELUnfinished     Code = "DELUnfinished"
	AttachmentChanged Code = "AttachmentChanged"
	DeviceNotRestored Code = "DeviceNotRestored"
)
