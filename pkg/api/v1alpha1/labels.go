package v1alpha1

// OwnerLabel is the label for who serves additional networks: on a node, who attaches them
// there; on a namespace or a pod, who is to attach those of its pods. A pod's label has
// precedence over its namespace's.
const OwnerLabel = "nadra.dev/owner"

// The values of OwnerLabel.
const (
	OwnerNadra = "nadra"
	// OwnerReturning is the value of a node that nadra gives back to Multus.
	OwnerReturning = "returning"
	OwnerMultus    = "multus"
)

// ManagedByLabel with the value Controller marks objects that nadra's controller has
// created, and may change and delete.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	Controller     = "nadra-controller"
)

// UnclaimedLabel is the label of a namespace for its pods that name networks by annotation and
// have no claim: attach, refuse or allow, as nadra-node's --unclaimed, which it overrides.
const UnclaimedLabel = "nadra.dev/unclaimed"

// ClaimsLabel is the label of a namespace for whether the webhook gives its pods claims: ClaimsAlways or
// ClaimsNever, as nadra-controller's --claims, which it overrides.
const ClaimsLabel = "nadra.dev/claims"

// The values of ClaimsLabel.
const (
	ClaimsAlways = "always"
	// ClaimsNever is for schedulers and autoscalers that do not know claims: the node of the pod attaches
	// its networks by the annotation.
	ClaimsNever = "never"
)

// DefaultNetworksKey is a label of a namespace: the networks that its pods get without naming them,
// or DefaultNetworksNone. As an annotation of a pod, DefaultNetworksNone keeps these networks away
// from the pod; any other value is the webhook's record of the networks that it has added.
const DefaultNetworksKey = "nadra.dev/default-networks"

// PluginsData is the field of an attached device's data in a claim's status with the files of plugins that ran, each
// PATH@sha256:DIGEST.
const PluginsData = "nadraPlugins"

// DefaultNetworksNone is the value of DefaultNetworksKey for no default networks.
const DefaultNetworksNone = "none"

// DescribedAnnotation marks a pod whose networks annotation the webhook has written from the pod's claims by hand, and
// has that text. The annotation of such a pod describes its claims: no edit takes a network of theirs away. KubeVirt
// writes its own text, without these networks, into the annotation of launcher pods that run.
const DescribedAnnotation = "nadra.dev/networks-of-claims"

// ProfileLabel is the label of a Node for what it offers, and of the ResourceSlices that nodes of this profile
// share. FactsAnnotation is the annotation of the Node from which the profile follows.
const (
	ProfileLabel    = "nadra.dev/profile"
	FactsAnnotation = "nadra.dev/facts"
)

// The annotations of a ResourceSlice that nodes share. OffersAnnotation names its networks for people, and may be
// shortened. OfferHashAnnotation has a hash of its devices, by which nodes see whether the slice is up to date.
const (
	OffersAnnotation    = "nadra.dev/offers"
	OfferHashAnnotation = "nadra.dev/offer-hash"
)
