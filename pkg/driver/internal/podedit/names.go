package podedit

import (
	"fmt"
	"regexp"
)

// netN is the form of the interface names that nadra gives.
var netN = regexp.MustCompile(`^net[1-9][0-9]*$`)

// isNetN reports whether an interface has a name that nadra may have given.
func isNetN(iface string) bool { return netN.MatchString(iface) }

// named returns the interfaces that elements name.
func (m *matches) named() map[string]bool {
	out := map[string]bool{}
	for _, s := range m.wanted {
		if s.Interface != "" {
			out[s.Interface] = true
		}
	}
	return out
}

// freeName returns the first of net1, net2, … that no set has.
func freeName(taken, named map[string]bool) string {
	for n := 1; ; n++ {
		if name := fmt.Sprintf("net%d", n); !taken[name] && !named[name] {
			return name
		}
	}
}
