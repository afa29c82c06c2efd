package translate

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestClassOfAgreesWithConvert checks that ClassOf and Convert return the same classes.
func TestClassOfAgreesWithConvert(t *testing.T) {
	for _, c := range []struct {
		name, config, pool string
		pools              bool
		class              string
	}{
		{"a network", `{"type":"bridge"}`, "", false, "net.a.nad.nadra.dev"},
		{"a file of the nodes", "", "", false, "net.a.nad.nadra.dev"},
		{"no JSON", "{", "", false, ""},
		{"attached by an agent", `{"cniVersion":"1.0.0","type":"antrea","networkType":"vlan"}`, "", false, ""},
		{"a pool that is not served", `{"type":"sriov"}`, "intel.com/sriov", false, ""},
		{"a pool", `{"type":"sriov"}`, "intel.com/sriov", true, "net.a.nad.nadra.dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nad := &nadv1.NetworkAttachmentDefinition{
				TypeMeta:   metav1.TypeMeta{APIVersion: nadv1.SchemeGroupVersion.String(), Kind: nadKind},
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "net"},
				Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: c.config},
			}
			if c.pool != "" {
				nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: c.pool}
			}
			options := Options{Pools: c.pools}
			made := ""
			if class, _ := ClassOf(nad, "aAbcde", options); class != nil {
				made = class.Name
			}
			text, err := yaml.Marshal(nad)
			if err != nil {
				t.Fatal(err)
			}
			converted := Convert(Input{Files: []File{{Name: "nad.yaml", Data: text}}, Options: options}).Networks[0].Class
			if made != c.class || converted != c.class {
				t.Errorf("ClassOf returns %q and Convert %q, want %q", made, converted, c.class)
			}
		})
	}
}
