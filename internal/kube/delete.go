package kube

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Exactly returns preconditions that make a deletion fail if the object has changed
// since it was read, or if another object has its name by now.
func Exactly(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// DeleteExactly returns delete options with the preconditions of Exactly.
func DeleteExactly(o metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: Exactly(o)}
}
