package attachment_test

import (
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The plan of a pod's annotation.
func Example() {
	selections, err := attachment.ParseSelections("blue, storage/red@data0, blue", "default")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := attachment.NewPlan(selections, func(r attachment.NetworkRef) (attachment.Network, error) {
		return attachment.ParseNetwork(&nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name},
			Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion": "1.0.0", "type": "macvlan"}`},
		})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range plan {
		fmt.Println(a.Interface, a.Network)
	}
	fmt.Println(string(plan[0].Conflist))
	// Output:
	// net1 default/blue
	// data0 storage/red
	// net3 default/blue
	// {"cniVersion":"1.0.0","name":"blue","plugins":[{"cniVersion":"1.0.0","type":"macvlan"}]}
}
