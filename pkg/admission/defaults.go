package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// defaultNetworks are the networks that a pod gets without naming them.
type defaultNetworks struct {
	networks []attachment.NetworkRef
	// by is the object that names them, for messages.
	by string
}

// hint returns the sentence that tells the author of a refused pod about networks that the pod's
// manifest does not name, or "".
func (d defaultNetworks) hint() string {
	if len(d.networks) == 0 {
		return ""
	}
	return fmt.Sprintf("Its first networks are default networks, by %s: %s. To create the pod without them, set annotation %s=%s. ",
		d.by, d.list(), v1alpha1.DefaultNetworksKey, v1alpha1.DefaultNetworksNone)
}

// list returns the networks as the pod's annotation DefaultNetworksKey records them.
func (d defaultNetworks) list() string {
	var names []string
	for _, n := range d.networks {
		names = append(names, n.String())
	}
	return strings.Join(names, ",")
}

// withDefaults decides about a pod with the default networks before its own. A pod of Multus gets
// those of Multus' own configuration, so it is only kept off nadra's nodes. A pod with claims for
// networks gets none, because its claims, not its annotation, are its networks.
func (a admitted) withDefaults() Decision {
	given, warned, err := a.defaults()
	if err != nil {
		return refused(err)
	}
	if c, found := claimOf(a.pod, a.hand); found && len(given.networks) > 0 && a.isCopy() {
		given = defaultNetworks{} // it gets them without its claims
	} else if found && len(given.networks) > 0 {
		warned = words.Short(fmt.Sprintf("%s requests the pod's networks, so it does not get the default networks %s: add them to the claim, or set annotation %s=%s",
			c, given.list(), v1alpha1.DefaultNetworksKey, v1alpha1.DefaultNetworksNone), maxWarning)
		given = defaultNetworks{}
	}
	if len(given.networks) > 0 {
		return a.prepended(given)
	}
	d := a.decide()
	if warned != "" && d.Outcome != Refused {
		d.Warnings = append([]string{warned}, d.Warnings[:min(len(d.Warnings), maxWarnings-1)]...)
	}
	return d
}

// prepended decides about a pod that gets default networks.
func (a admitted) prepended(given defaultNetworks) Decision {
	server, err := a.serves()
	if err != nil {
		return refused(err)
	}
	if server.Owner == v1alpha1.OwnerMultus {
		if asks(a.pod, a.options) {
			return a.decide()
		}
		a.server = server
		return a.keepOff()
	}
	value, err := prepend(given.networks, a.networks(), a.namespace)
	if err != nil {
		return a.decide() // it refuses the annotation, at positions of the manifest
	}
	values := map[string]string{a.networksKey(): value, v1alpha1.DefaultNetworksKey: given.list()}
	edits := annotate(a.pod, values)
	if a.manifest, err = patched(a.manifest, edits); err != nil {
		return refused(reason.Errorf(reason.ObjectNotRead, "reading the pod: %w", err))
	}
	a.pod = a.pod.DeepCopy()
	a.pod.Annotations = labels.Merge(a.pod.Annotations, values)
	a.given = given
	d := a.decide()
	if d.Outcome == Refused || d.Outcome == OnMultus {
		return d
	}
	d.Outcome, d.Edits = Converted, append(edits, d.Edits...)
	return d
}

// defaults returns the default networks that the pod does not have yet. The label of its namespace
// takes precedence over the controller's list. A system namespace has no default networks, and a launcher pod of KubeVirt
// gets none: no guest would have them, and KubeVirt takes net1 for a name of its own.
func (a admitted) defaults() (given defaultNetworks, warned string, err error) {
	var value string
	labelled := false
	if a.lookups.NamespaceLabels != nil {
		value, labelled = a.lookups.NamespaceLabels(a.namespace)[v1alpha1.DefaultNetworksKey]
	}
	recorded, marked := a.pod.Annotations[v1alpha1.DefaultNetworksKey]
	switch {
	case labelled && value == v1alpha1.DefaultNetworksNone, !labelled && len(a.options.DefaultNetworks) == 0, recorded == v1alpha1.DefaultNetworksNone,
		attachment.IsLauncher(a.pod.Labels):
		return given, "", nil
	case slices.Contains(a.options.SystemNamespaces, a.namespace):
		if labelled {
			warned = words.Short(fmt.Sprintf("label %s of namespace %s has no effect, because --system-namespaces of nadra-controller names the namespace", v1alpha1.DefaultNetworksKey, a.namespace), maxWarning)
		}
		return given, warned, nil
	case marked:
		return given, "", a.checkRecord(recorded)
	case labelled:
		given.by = fmt.Sprintf("label %s of namespace %s", v1alpha1.DefaultNetworksKey, a.namespace)
		given.networks, err = networksOfLabel(value, a.namespace)
		return given, "", err
	}
	return defaultNetworks{networks: a.options.DefaultNetworks, by: "--default-networks of nadra-controller"}, "", nil
}

// checkRecord returns an error unless the pod's networks begin with the recorded default networks.
// An author may have taken the annotation for a request.
func (a admitted) checkRecord(recorded string) error {
	selections, err := attachment.ParseSelections(a.networks(), a.namespace)
	if err != nil {
		return nil //nolint:nilerr // other rules refuse the annotation
	}
	var first defaultNetworks
	for _, s := range selections[:min(len(selections), strings.Count(recorded, ",")+1)] {
		first.networks = append(first.networks, s.Network)
	}
	if first.list() == recorded {
		return nil
	}
	return reason.Errorf(reason.DefaultNetworksInvalid, "annotation %s of the pod: %q are not the first networks of its annotation %s: remove it, so that the pod gets the default networks, or use %s",
		v1alpha1.DefaultNetworksKey, recorded, a.networksKey(), v1alpha1.DefaultNetworksNone)
}

// prepend returns the networks annotation with networks before its own. It keeps the text of the
// JSON form.
func prepend(networks []attachment.NetworkRef, annotation, namespace string) (string, error) {
	own, err := attachment.ParseSelections(annotation, namespace)
	if err != nil && strings.TrimSpace(annotation) != "" {
		return "", err
	}
	if !strings.ContainsAny(annotation, `[{"`) || len(own) == 0 {
		var all []attachment.Selection
		for _, n := range networks {
			all = append(all, attachment.Selection{Network: n})
		}
		return attachment.NetworksValue(append(all, own...)), nil
	}
	text, err := json.Marshal(networks)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(annotation, "[")
	return string(bytes.TrimSuffix(text, []byte("]"))) + ", " + strings.TrimSpace(rest), nil
}

// networksOfLabel returns the networks that a label of a namespace names. "_" separates names, and
// "__" a namespace from a name, because a label's value can have neither commas nor slashes.
func networksOfLabel(value, namespace string) ([]attachment.NetworkRef, error) {
	networks, err := parseNetworks(strings.Split(strings.ReplaceAll(value, "__", "/"), "_"), namespace)
	if err != nil {
		return nil, reason.Errorf(reason.DefaultNetworksInvalid, "label %s of namespace %s: %q: %w: write NAME or NAMESPACE__NAME, several joined by _, or %s",
			v1alpha1.DefaultNetworksKey, namespace, value, err, v1alpha1.DefaultNetworksNone)
	}
	return networks, nil
}

// ParseDefaultNetworks parses a list of networks, each with its namespace.
func ParseDefaultNetworks(list []string) ([]attachment.NetworkRef, error) {
	return parseNetworks(list, "")
}

// parseNetworks parses names of networks. Those without a namespace are in the given one.
func parseNetworks(list []string, namespace string) ([]attachment.NetworkRef, error) {
	var out []attachment.NetworkRef
	for _, item := range list {
		n := attachment.NetworkRef{Namespace: namespace, Name: item}
		if in, name, found := strings.Cut(item, "/"); found {
			n = attachment.NetworkRef{Namespace: in, Name: name}
		}
		if len(validation.IsDNS1123Label(n.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(n.Name)) > 0 {
			return nil, fmt.Errorf("%q is not a namespace and the name of a NetworkAttachmentDefinition", n)
		}
		out = append(out, n)
	}
	return out, nil
}
