// Package core stands in for the package of KubeVirt's templates for virtual machines, which KubeVirt 1.9 refers to.
// Its own module cannot be had everywhere. The lane has no template, and the feature gate Template is off.
package core

// Names of the API.
const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
