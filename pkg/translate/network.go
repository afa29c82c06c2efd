package translate

import (
	"errors"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// network is what the rules need to know of a NetworkAttachmentDefinition.
type network struct {
	resourceName string
	// blocked is set where the configuration is not usable.
	blocked error
}

const nadGroup, nadKind = "k8s.cni.cncf.io", "NetworkAttachmentDefinition"

func isNetwork(o object) bool { return o.group == nadGroup && o.ref.Kind == nadKind }

// readNetwork judges a NetworkAttachmentDefinition of the input.
func readNetwork(o object, r *reporter) network {
	nad := &nadv1.NetworkAttachmentDefinition{}
	nad.Namespace, nad.Name = o.ref.Namespace, o.ref.Name
	pool := annotation(o.node, attachment.ResourceNameAnnotation)
	nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: str(pool)}
	config := get(o.node, "spec", "config")
	nad.Spec.Config = str(config)
	n := network{resourceName: str(pool)}
	if config != nil && len(config.Content) > 0 {
		n.blocked = errors.New("spec.config: is no string")
		r.add(NetworkNotJSON, o.path.Child("spec", "config"), r.doc.at(config), "is no string: it must be one that contains JSON")
		return n
	}
	_, err := attachment.ParseNetwork(nad)
	switch {
	case errors.Is(err, attachment.ErrNoConfig):
		r.add(NetworkOnNodes, o.path.Child("spec"), r.doc.at(keyNode(o.node, "spec")), "it is the file of the node whose name is %q", nad.Name)
	case err != nil:
		n.blocked = err
		r.add(NetworkNotJSON, o.path.Child("spec", "config"), r.doc.within(config, syntaxOffset(nad.Spec.Config)), "%s", bare(err, "spec.config: "))
	}
	if owners := get(o.node, "metadata", "ownerReferences"); len(items(owners)) > 0 {
		r.add(NetworkOwned, o.path.Child("metadata", "ownerReferences"), r.doc.at(owners), "%s %s owns it",
			str(get(owners.Content[0], "kind")), str(get(owners.Content[0], "name")))
	}
	return n
}

// networkOf judges one that was looked up.
func networkOf(nad *nadv1.NetworkAttachmentDefinition) network {
	n := network{resourceName: nad.Annotations[attachment.ResourceNameAnnotation]}
	if _, err := attachment.ParseNetwork(nad); err != nil && !errors.Is(err, attachment.ErrNoConfig) {
		n.blocked = err
	}
	return n
}
