package attachment

import (
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The API's types serve here too: their JSON form is that of the CNI
// capabilities.
type (
	// PortMapping is one entry of the capability portMappings.
	PortMapping = v1alpha1.PortMapping
	// Bandwidth is the value of the capability bandwidth.
	Bandwidth = v1alpha1.Bandwidth
)

// Selection is one requested network: an element of the annotation
// k8s.v1.cni.cncf.io/networks (behaviour A2), or what a claim says in its stead.
// The fields have the meaning, units and limits of v1alpha1.AttachmentConfig.
type Selection struct {
	Network        NetworkRef
	Interface      string
	IPs            []string
	MAC            string
	InfinibandGUID string
	CNIArgs        map[string]json.RawMessage
	PortMappings   []PortMapping
	Bandwidth      *Bandwidth
	// DefaultRoute is nil when nothing was said; an empty list is a request too.
	DefaultRoute       *[]string
	DeviceID           string
	IPAMClaimReference string
	// Unknown are the sorted keys of the element that mean nothing to Multus or
	// to nadra. Multus ignores them in silence (behaviour A2-12).
	Unknown []string
}

// NetworksAnnotation is the pod annotation that requests networks.
const NetworksAnnotation = "k8s.v1.cni.cncf.io/networks"

// DefaultNetworkAnnotation names another network for a pod's eth0. It is Multus'
// own, and nadra does not serve it.
const DefaultNetworkAnnotation = "v1.multus-cni.io/default-network"

// ParseSelections reads the annotation's value in either of its forms: JSON if
// '[', '{' or '"' occurs anywhere in it, else names separated by commas
// (behaviours A2-10, A2-11). An empty value and an empty list select nothing. A
// network without a namespace is in the pod's. Where the standard wants an
// invalid annotation ignored, it is an error, as with Multus (behaviour A2-15).
func ParseSelections(annotation, podNamespace string) ([]Selection, error) {
	if annotation == "" {
		return nil, nil
	}
	parse := parseNames
	if strings.ContainsAny(annotation, `[{"`) {
		parse = parseElements
	}
	selections, err := parse(annotation)
	if err != nil {
		return nil, reason.Errorf(reason.AnnotationInvalid, "parsing annotation %s: %w", NetworksAnnotation, err)
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
		return nil, reason.Errorf(reason.AnnotationInvalid, "parsing annotation %s: %w", NetworksAnnotation, err)
	}
	return selections, nil
}

// element names one requested network in messages. The index counts from 0.
func element(i int) *field.Path { return field.NewPath("networks").Index(i) }

// checked validates a selection and fills in its defaults, both by way of its
// wire form: what an annotation may say is what a claim may say.
func checked(s Selection, path *field.Path) (Selection, error) {
	config := ToConfig(s)
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
	return s, errs.ToAggregate()
}

// annotationKeys turns the wire form's field names into the annotation's.
var annotationKeys = strings.NewReplacer(
	"].network.", "].",
	"].infinibandGUID", "].infiniband-guid",
	"].cniArgs", "].cni-args",
	"].defaultRoute", "].default-route",
	"].ipamClaimReference", "].ipam-claim-reference",
)
