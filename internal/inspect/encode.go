package inspect

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// List is the JSON and YAML form of attachments. Within a version, fields are added, and
// never renamed or removed.
type List struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Attachment `json:"items"`
}

// NewList returns rows as a List.
func NewList(rows []Attachment) List {
	return List{TypeMeta: typeMeta("AttachmentList"), Items: rows}
}

// One is a single attachment, for a watch.
type One struct {
	metav1.TypeMeta `json:",inline"`
	Attachment      `json:",inline"`
}

// NewOne returns a row as a One.
func NewOne(a Attachment) One {
	return One{TypeMeta: typeMeta("Attachment"), Attachment: a}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

// Encode writes a List, a One or a Chain as json or yaml.
func Encode(w io.Writer, format string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	text = append(text, '\n')
	if format == "yaml" && err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", format, err)
	}
	return nil
}
