package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// DriverName is the DRA driver that these parameters are for.
	DriverName = "net.nadra.dev"
	// GroupName is the API group of these parameters.
	GroupName = "nadra.dev"
	// Kind is the kind of these parameters.
	Kind = "AttachmentConfig"
)

// GroupVersion is the group and version of these parameters.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// TypeMeta is what every AttachmentConfig must say of itself.
func TypeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: Kind}
}

// AddToScheme makes the types known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AttachmentConfig{})
	return nil
}
