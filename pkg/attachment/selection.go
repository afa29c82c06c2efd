package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The API's types, whose JSON form is that of the CNI capabilities.
type (
	// PortMapping is one entry of the capability portMappings.
	PortMapping = v1alpha1.PortMapping
	// Bandwidth is the value of the capability bandwidth.
	Bandwidth = v1alpha1.Bandwidth
)

// Selection is one requested network: an element of the annotation k8s.v1.cni.cncf.io/networks
// (behaviour A2), or the equivalent of a claim. The fields have the meaning, units and limits of
// v1alpha1.AttachmentConfig.
type Selection struct {
	Network        NetworkRef
	Interface      string
	IPs            []string
	MAC            string
	InfinibandGUID string
	CNIArgs        map[string]json.RawMessage
	PortMappings   []PortMapping
	Bandwidth      *Bandwidth
	// DefaultRoute is nil if it was not given; an empty list is a request, too.
	DefaultRoute *[]string
	DeviceID     string
	// DeviceFrom is empty in annotations, which have no requests.
	DeviceFrom         string
	IPAMClaimReference string
	// Unknown has the sorted keys of the element that neither Multus nor nadra knows. Multus ignores
	// them silently (behaviour A2-12).
	Unknown []string
}

// NetworksAnnotation is the pod annotation that requests networks.
const NetworksAnnotation = "k8s.v1.cni.cncf.io/networks"

// OwnNetworksAnnotation has the networks that nadra attaches to a pod on whose node Multus attaches
// those of NetworksAnnotation. The two have the same form.
const OwnNetworksAnnotation = "nadra.dev/networks"

// NetworksKey returns the annotation by which a pod requests the networks that nadra attaches:
// OwnNetworksAnnotation if it has a value, otherwise NetworksAnnotation.
func NetworksKey(annotations map[string]string) string {
	if NamesOwn(annotations) {
		return OwnNetworksAnnotation
	}
	return NetworksAnnotation
}

// NamesOwn reports whether OwnNetworksAnnotation has a value: only nadra attaches these networks.
func NamesOwn(annotations map[string]string) bool {
	return strings.TrimSpace(annotations[OwnNetworksAnnotation]) != ""
}

// NetworksText returns the value of the annotation that NetworksKey names.
func NetworksText(annotations map[string]string) string { return annotations[NetworksKey(annotations)] }

// DefaultNetworkAnnotation is Multus' annotation that names another network for a pod's eth0. nadra
// does not support it.
const DefaultNetworkAnnotation = "v1.multus-cni.io/default-network"

// ParseSelections parses the annotation's value in either of its forms: JSON if '[', '{' or '"'
// occurs anywhere in it, otherwise names separated by commas (behaviours A2-10, A2-11). An empty
// value and an empty list select no networks. A network without a namespace is in the pod's. An
// invalid annotation is an error, as with Multus, though the standard wants it ignored (behaviour
// A2-15). ParseSelections refuses an annotation beyond a limit before it decodes anything.
func ParseSelections(annotation, podNamespace string) ([]Selection, error) {
	if annotation == "" {
		return nil, nil
	}
	selections, err := parseSelections(annotation, podNamespace)
	if err != nil {
		return nil, reason.Wrap(reason.AnnotationInvalid, fmt.Errorf("parsing the networks annotation: %w", words.ShortError(err, maxMessage)))
	}
	return selections, nil
}

func parseSelections(annotation, podNamespace string) ([]Selection, error) {
	if err := v1alpha1.CheckText("it", annotation, v1alpha1.MaxAnnotation, "name fewer networks, or shorten their arguments"); err != nil {
		return nil, err
	}
	parse := parseNames
	if strings.ContainsAny(annotation, `[{"`) {
		parse = parseElements
	}
	selections, err := parse(annotation)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, s := range selections {
		if s.Network.Namespace == "" {
			s.Network.Namespace = podNamespace
		}
		selections[i], err = checked(s, element(i))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return selections, CheckLimits(selections)
}

// element returns the path of one requested network, for messages. The index counts from 0.
func element(i int) *field.Path { return field.NewPath("networks").Index(i) }

// checked validates a selection and sets its defaults. It uses the wire form, so that annotations
// and claims have the same rules.
func checked(s Selection, path *field.Path) (Selection, error) {
	config := toConfig(s)
	if config.Network == nil {
		config.Network = &v1alpha1.NetworkReference{}
	}
	v1alpha1.SetDefaults(&config)
	errs := config.Validate(path)
	for _, err := range errs {
		err.Field = annotationKeys.Replace(err.Field)
	}
	unknown := s.Unknown
	s = FromConfig(config)
	s.Unknown = unknown
	return s, v1alpha1.AsError(errs)
}

// annotationKeys replaces the wire form's field names by the annotation's.
var annotationKeys = strings.NewReplacer(
	"].network.", "].",
	"].infinibandGUID", "].infiniband-guid",
	"].cniArgs", "].cni-args",
	"].defaultRoute", "].default-route",
	"].ipamClaimReference", "].ipam-claim-reference",
)
