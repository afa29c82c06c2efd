// Package v1alpha1 defines the parameters a claim passes to the driver for one
// network attachment.
//
// An AttachmentConfig stands in the opaque parameters of a ResourceClaim, a
// ResourceClaimTemplate or a DeviceClass, for the driver net.nadra.dev. It
// names a NetworkAttachmentDefinition and carries, typed, every field of the
// NPWG network selection element ("Kubernetes Network Custom Resource
// Definition De-facto Standard" v1.3, §4.1.2). It never carries CNI
// configuration: a claim cannot run a plugin that no
// NetworkAttachmentDefinition names (design D1).
//
// +k8s:deepcopy-gen=package
// +groupName=nadra.dev
package v1alpha1
