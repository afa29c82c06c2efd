package attachment

// NetworkRef names a NetworkAttachmentDefinition.
type NetworkRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns namespace/name.
func (r NetworkRef) String() string { return r.Namespace + "/" + r.Name }

// PodRef names a pod with its UID.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// ClaimRef names a ResourceClaim with its UID.
type ClaimRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns namespace/name.
func (r ClaimRef) String() string { return r.Namespace + "/" + r.Name }
