package attachment

// Sandbox is a pod's sandbox in the container runtime, to which networks are attached. A pod gets a
// new sandbox whenever the runtime starts it again.
type Sandbox struct {
	// ID is the runtime's identifier, CNI_CONTAINERID to the plugins.
	ID string `json:"id"`
	// NetNS is the path of the network namespace on the host, CNI_NETNS to the plugins. It is empty
	// if the namespace is gone, which is valid for DEL.
	NetNS string `json:"netNS,omitempty"`
	// NetNSFD is a file descriptor of this process on the network namespace. It keeps the namespace
	// while the DELs run, in case the runtime removes it from its path. 0 means no descriptor.
	NetNSFD int `json:"-"`
	// Unspecified is set if the runtime names no namespaces at all, so that an empty NetNS does not
	// mean the host's: containerd lost the specification of a sandbox that it was creating when it
	// was killed.
	Unspecified bool `json:"-"`
	// Networks is the pod's networks annotation when the sandbox was made, or nil if it is unknown.
	Networks *string `json:"-"`
	// Described is true if the webhook wrote that annotation, from the pod's claims.
	Described bool `json:"-"`
	// Cookie is the cookie of the network namespace (SO_NETNS_COOKIE). It is unique until the node
	// reboots, unlike the path and the inode number. 0 means unknown.
	Cookie uint64 `json:"netNSCookie,omitempty"`
	Pod    PodRef `json:"pod"`
	// IPs has the pod's addresses on the default network, the primary one first, if the runtime
	// reports them.
	IPs []string `json:"ips,omitempty"`
}
