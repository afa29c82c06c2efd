package translate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Created is an object that the conversion adds.
type Created struct {
	Object runtime.Object
	// For is the file with the first object that needs it.
	For string
}

// YAML is the object as a document, without the line that separates it from
// others.
func (c Created) YAML() []byte {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Object)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", c.Object, err))
	}
	// The type writes the template's own metadata even where there is none.
	if metadata, found, _ := unstructured.NestedMap(tree, "spec", "metadata"); found && len(metadata) == 0 {
		unstructured.RemoveNestedField(tree, "spec", "metadata")
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", c.Object, err))
	}
	return text
}
