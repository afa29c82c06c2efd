// Package wire is what the host and the guest's agent say to each other: JSON
// over HTTP, on a network that nobody else is on.
package wire

// Port is where the agent listens.
const Port = "1024"

// Boot is the agent's configuration, the file BootFile on the guest's disk.
type Boot struct {
	Hostname string
	// Uplink is the interface of the cluster's network, by its MAC.
	Uplink, Address, Gateway string
	// VFs is how many virtual functions each igb card is to have.
	VFs int
	// RDMA is how many of them get an RDMA device.
	RDMA int
}

// BootFile is where Boot is.
const BootFile = "/etc/vm.json"

// Command is a program to be run in the guest.
type Command struct {
	Argv  []string
	Stdin []byte
	// Pod is the UID of the pod in whose network namespace to run it; it is the
	// guest's own by default.
	Pod string
	// Log makes it a daemon that writes there; it is not waited for.
	Log string
}

// Outcome is how a command ended.
type Outcome struct {
	Stdout, Stderr []byte
	Code           int
	// Error is why it could not be run.
	Error string
}

// Net is what there is in a network namespace.
type Net struct {
	Links  []Link
	Routes []Route
	Rules  []Rule
	// RDMA lists the RDMA devices by name.
	RDMA []string
}

// Link is a network interface.
type Link struct {
	Name, Kind, MAC string
	// Bus is the address of the PCI function behind it.
	Bus       string
	Up        bool
	MTU       int
	Master    string   // the name of the bridge, bond or VRF that it belongs to
	VLAN      int      // of a vlan
	Mode      string   // of an ipvlan, macvlan or bond
	Table     uint32   // of a vrf
	Addresses []string // with prefix length, without link-local ones
	VFs       []VF     // of a physical function
	// Rate is what its token bucket filter (tbf) lets through, in bit/s; 0 for none.
	Rate uint64
}

// VF is what a physical function has set for a virtual one.
type VF struct {
	Index             int
	MAC               string // the administrator's; all zeros for none
	VLAN, Qos         int
	Trust, SpoofCheck bool
	MinRate, MaxRate  int // in Mbit/s; 0 for no limit
}

// Route is a route of any table but "local".
type Route struct {
	Destination, Gateway, Link, Source string
	Table                              int
}

// Rule is a routing rule.
type Rule struct {
	From  string
	Table int
}

// Link returns an interface by its name, or nil.
func (n Net) Link(name string) *Link {
	for i := range n.Links {
		if n.Links[i].Name == name {
			return &n.Links[i]
		}
	}
	return nil
}
