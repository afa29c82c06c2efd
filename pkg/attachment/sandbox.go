package attachment

// Sandbox is a pod's sandbox in the container runtime: where attachments are
// made. A pod gets a new one whenever the runtime starts it anew.
type Sandbox struct {
	// ID is the runtime's identifier, CNI_CONTAINERID to the plugins.
	ID string `json:"id"`
	// NetNS is the path of the network namespace in the host, CNI_NETNS to the
	// plugins. Empty means that it is gone, which is legal for DEL.
	NetNS string `json:"netNS,omitempty"`
	// NetNSFD is a file descriptor of this process on the network namespace. It keeps the
	// namespace while the DELs run, should the runtime take it from its path meanwhile. 0
	// means that nobody keeps it.
	NetNSFD int `json:"-"`
	// Unspecified means that the runtime names no namespace of any kind, so that an
	// empty NetNS does not mean the host's: containerd has lost the specification of a
	// sandbox that it was making when it was killed.
	Unspecified bool `json:"-"`
	// Cookie is the network namespace's (SO_NETNS_COOKIE): unique for the life
	// of the node, unlike its path and its inode number. 0 means unknown.
	Cookie uint64 `json:"netNSCookie,omitempty"`
	Pod    PodRef `json:"pod"`
	// IPs are the pod's addresses on the default network, the primary one
	// first, as the runtime tells; none where it does not.
	IPs []string `json:"ips,omitempty"`
}
