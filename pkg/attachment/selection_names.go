package attachment

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameForm is the standard's rule for names in the comma form (behaviour A1-5).
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// parseNames parses the comma form: [namespace/]name[@interface], with optional white space around
// each part (behaviour A2-11).
func parseNames(annotation string) ([]Selection, error) {
	if err := checkCount(1 + strings.Count(annotation, ",")); err != nil {
		return nil, err
	}
	var selections []Selection
	for i, item := range strings.Split(annotation, ",") {
		s, err := parseName(strings.TrimSpace(item), element(i))
		if err != nil {
			return nil, err
		}
		selections = append(selections, s)
	}
	return selections, nil
}

// parseName parses one item.
func parseName(item string, path *field.Path) (Selection, error) {
	if item == "" {
		return Selection{}, fmt.Errorf("%s is empty: remove the comma beside it, or name a network", path)
	}
	namespace, rest, slash := strings.Cut(item, "/")
	if !slash {
		namespace, rest = "", item
	}
	name, iface, _ := strings.Cut(rest, "@")
	if strings.Contains(rest, "/") || strings.Contains(iface, "@") {
		return Selection{}, fmt.Errorf("%s: %q has a second '/' or '@': write namespace/name@interface", path, item)
	}
	namespace, name = strings.TrimSpace(namespace), strings.TrimSpace(name)
	if name == "" {
		return Selection{}, fmt.Errorf("%s: %q names no network: write namespace/name@interface", path, item)
	}
	for _, part := range []string{namespace, name} {
		if part != "" && !nameForm.MatchString(part) {
			return Selection{}, fmt.Errorf("%s: %q is not a valid name in the comma form: use lower-case letters, digits and '-', "+
				`or write the JSON form: [{"name": "…", "namespace": "…"}]`, path, part)
		}
	}
	return Selection{Network: NetworkRef{Namespace: namespace, Name: name}, Interface: strings.TrimSpace(iface)}, nil
}
