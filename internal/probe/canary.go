package probe

// Kinds of the output of canaries.
const (
	InspectionKind = "CanaryInspection"
	PingsKind      = "CanaryPings"
)

// CanaryCommand is the subcommand of nadra-node that runs in a canary.
const CanaryCommand = "canary"

// CanaryPort is the UDP port on which canaries answer if ICMP is not permitted.
const CanaryPort = 47763

// Inspection has the interfaces of a canary.
type Inspection struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Links are the interfaces without lo.
	Links []Link `json:"links"`
}

// Pings has the results of a canary's pings.
type Pings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Pings      []Ping `json:"pings"`
}

// Methods of pinging.
const (
	ICMP = "icmp" // an echo request, answered by the other kernel
	UDP  = "udp"  // a datagram, answered by the other canary
)

// Ping is the result of the requests to an address.
type Ping struct {
	Address string `json:"address"`
	// Via is the interface through which the kernel sends the requests.
	Via      string `json:"via,omitempty"`
	Method   string `json:"method,omitempty"`
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// MedianMicros is the median round trip in microseconds.
	MedianMicros int64  `json:"medianMicros,omitempty"`
	Error        string `json:"error,omitempty"`
}
