package attachment

// Sandbox is a pod's sandbox in the container runtime: where attachments are
// made. A pod gets a new one whenever the runtime starts it anew.
type Sandbox struct {
	// ID is the runtime's identifier, CNI_CONTAINERID to the plugins.
	ID string `json:"id"`
	// NetNS is the path of the network namespace in the host, CNI_NETNS to the
	// plugins. Empty means that it is gone, which is legal for DEL.
	NetNS string `json:"netNS,omitempty"`
	Pod   PodRef `json:"pod"`
}
