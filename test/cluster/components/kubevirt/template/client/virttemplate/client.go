// Package virttemplate stands in for the client of KubeVirt's templates for virtual machines.
package virttemplate

import (
	"errors"

	"k8s.io/client-go/rest"
)

// Clientset would read templates.
type Clientset struct{}

// NewForConfig fails: a KubeVirt that serves templates needs its own client.
func NewForConfig(*rest.Config) (Clientset, error) {
	return Clientset{}, errors.New("the lane has no templates for virtual machines")
}

// TemplateV1beta1 is the group of templates.
func (Clientset) TemplateV1beta1() Group { return Group{} }

// Group is the API group of templates.
type Group struct{}

// RESTClient returns no client.
func (Group) RESTClient() rest.Interface { return nil }
