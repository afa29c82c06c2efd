package inspect

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
