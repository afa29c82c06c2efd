package attachment

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameForm is the standard's rule for names in the comma form (behaviour A1-5).
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// parseNames reads the comma form: [namespace/]name[@interface], with white
// space allowed around each part (behaviour A2-11).
func parseNames(annotation string) ([]Selection, error) {
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

func parseName(item string, path *field.Path) (Selection, error) {
	if item == "" {
		return Selection{}, fmt.Errorf("%s: is empty: remove the comma beside it, or name a network", path)
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
			return Selection{}, fmt.Errorf("%s: %q is no name in this form: use lower-case letters, digits and '-', "+
				`or the JSON form: [{"name": "…", "namespace": "…"}]`, path, part)
		}
	}
	return Selection{Network: NetworkRef{Namespace: namespace, Name: name}, Interface: strings.TrimSpace(iface)}, nil
}
