// Package v1alpha1 defines the parameters that a claim passes to the driver for one network
// attachment, and the labels of nadra.
//
// An AttachmentConfig is in the opaque parameters of a ResourceClaim, a
// ResourceClaimTemplate or a DeviceClass for the driver net.nadra.dev. It names a
// NetworkAttachmentDefinition and has a typed field for every field of the NPWG network
// selection element ("Kubernetes Network Custom Resource Definition De-facto Standard"
// v1.3, §4.1.2). It never has CNI configuration: a claim cannot run a plugin that no
// NetworkAttachmentDefinition names.
//
// +k8s:deepcopy-gen=package
// +groupName=nadra.dev
package v1alpha1
