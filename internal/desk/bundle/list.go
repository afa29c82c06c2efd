package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// keep returns the wanted items.
func keep[T metav1.Object](items []T, wanted func(metav1.Object) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), func(o T) bool { return !wanted(o) })
}

// object is an object that the archive can contain.
type object interface {
	metav1.Object
	runtime.Object
}

// add adds objects of a kind, sorted.
func add[T object](out *Bundle, resource, what string, items []T) error {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	var maps []map[string]any
	for _, item := range items {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return fmt.Errorf("adding %s/%s: %w", item.GetNamespace(), item.GetName(), err)
		}
		m["apiVersion"], m["kind"] = kindOf(item)
		maps = append(maps, m)
	}
	return out.addObjects("objects/"+resource+".json", what, maps)
}

// kindOf returns the version and kind of an object, which the items of lists lack.
func kindOf(o runtime.Object) (apiVersion, kind string) {
	if _, ok := o.(*nadv1.NetworkAttachmentDefinition); ok {
		return nadv1.SchemeGroupVersion.String(), "NetworkAttachmentDefinition"
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return "", fmt.Sprintf("%T", o)
	}
	return kinds[0].ToAPIVersionAndKind()
}

// mentionsNadra reports whether an object mentions nadra's driver, classes or labels.
func mentionsNadra(o metav1.Object) bool {
	text, err := json.Marshal(o)
	return err == nil && strings.Contains(string(text), "nadra.dev")
}
