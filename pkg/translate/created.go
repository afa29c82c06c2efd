package translate

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Created is an object that the conversion adds.
type Created struct {
	Object runtime.Object
	// For has the names of files with an object that needs it: one of each kustomization, or of each
	// folder without one.
	For []string
}

// YAML returns the object as a document, without the separating line. It does not fold long
// lines, because people read the expressions in them.
func (c Created) YAML() []byte {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Object)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", c.Object, err))
	}
	// The type encodes the template's own metadata even if they are empty.
	if metadata, found, _ := unstructured.NestedMap(tree, "spec", "metadata"); found && len(metadata) == 0 {
		unstructured.RemoveNestedField(tree, "spec", "metadata")
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(tree), encoder.Close()); err != nil {
		panic(fmt.Sprintf("encoding %T: %v", c.Object, err))
	}
	return b.Bytes()
}

// Texts returns objects as documents. There may be thousands of them.
func Texts(created []Created) [][]byte {
	out := make([][]byte, len(created))
	parallel(len(created), func(i int) { out[i] = created[i].YAML() })
	return out
}
