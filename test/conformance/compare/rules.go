package compare

import "regexp"

// rule says which behaviour a difference is an instance of. Every expression
// that is given must match.
type rule struct {
	number              string
	path, multus, nadra string
}

// rules are tried in order.
var rules = []rule{}

// Number returns the behaviour that a difference is an instance of; none if
// nobody has thought of it.
func Number(d Difference) string {
	for _, r := range rules {
		if matches(r.path, d.Path) && matches(r.multus, d.Multus) && matches(r.nadra, d.Nadra) {
			return r.number
		}
	}
	return ""
}

func matches(expression, text string) bool {
	return regexp.MustCompile(expression).MatchString(text)
}
