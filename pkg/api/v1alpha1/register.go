package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// DriverName is the name of the DRA driver.
	DriverName = "net.nadra.dev"
	// GroupName is the API group of these parameters.
	GroupName = "nadra.dev"
	// Kind is the kind of these parameters.
	Kind = "AttachmentConfig"
)

// GroupVersion is the group and version of these parameters.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// TypeMeta returns the apiVersion and kind that every AttachmentConfig must have.
func TypeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: Kind}
}

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AttachmentConfig{})
	return nil
}
