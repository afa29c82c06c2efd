// Package wire has the types of the requests between the host and the guest's agent: JSON
// over HTTP, on a network of their own. All of it is in wire.go.
package wire

// Port is the port of the agent.
const Port = "1024"

// Boot is the agent's configuration, the file BootFile on the guest's disk.
type Boot struct {
	Hostname string
	// Uplink is the interface of the cluster's network, by its MAC.
	Uplink, Address, Gateway string
	// VFs is the number of virtual functions of each igb card.
	VFs int
	// RDMA is the number of them with an RDMA device.
	RDMA int
}

// BootFile is the path of Boot.
const BootFile = "/etc/vm.json"

// Command is a program that runs in the guest.
type Command struct {
	Argv  []string
	Stdin []byte
	// Pod is the UID of the pod in whose network namespace it runs; empty for the guest's
	// own.
	Pod string
	// Log makes it a daemon with this log file, for which the agent does not wait.
	Log string
}

// Outcome is the result of a command.
type Outcome struct {
	Stdout, Stderr []byte
	Code           int
	// Error is the error if it could not be run.
	Error string
}

// Net is the content of a network namespace.
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
	// Rate is the limit of its token bucket filter (tbf), in bit/s; 0 for none.
	Rate uint64
}

// VF has a physical function's settings of a virtual one.
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
