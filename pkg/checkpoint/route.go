package checkpoint

import "fmt"

// MaxRoutes limits the default routes of a pod that may change them, and of those that one record has displaced.
const MaxRoutes = 100

// Route is a default route of a pod, with everything that restoring it needs.
type Route struct {
	// Family is IPv4 or IPv6.
	Family string `json:"family"`
	// Metric is the kernel's priority: the route with the lowest metric is used.
	Metric int `json:"metric"`
	// Source is the preferred source address, or empty.
	Source string `json:"source,omitempty"`
	// Protocol and Scope are the kernel's numbers (rtnetlink(7)).
	Protocol int `json:"protocol,omitempty"`
	Scope    int `json:"scope,omitempty"`
	// MTU is 0 if the interface's applies.
	MTU int `json:"mtu,omitempty"`
	// Hops has several entries if traffic is spread over them.
	Hops []Hop `json:"hops"`
}

// Hop is one next hop of a route.
type Hop struct {
	Interface string `json:"interface"`
	// Gateway is empty if all addresses are on the interface's link.
	Gateway string `json:"gateway,omitempty"`
	// Weight is the kernel's rtnh_hops, one less than the weight that people write.
	Weight int  `json:"weight,omitempty"`
	OnLink bool `json:"onLink,omitempty"`
}

// String renders the route as ip(8) does.
func (r Route) String() string {
	out := r.Family + " default"
	for _, h := range r.Hops {
		if h.Gateway != "" {
			out += " via " + h.Gateway
		}
		out += " dev " + h.Interface
	}
	return fmt.Sprintf("%s metric %d", out, r.Metric)
}
