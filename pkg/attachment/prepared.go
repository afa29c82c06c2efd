package attachment

// Prepared is an attachment with the allocated device of which it was made. With it and a Sandbox,
// ADD and DEL need neither the claim nor the NetworkAttachmentDefinition.
type Prepared struct {
	// Claim is empty for an attachment without a claim, which belongs to the pod itself.
	Claim ClaimRef `json:"claim"`
	// Request, Pool, Device and ShareID are from the allocation result. ShareID is empty unless the
	// device is shared.
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	ShareID string `json:"shareID,omitempty"`
	Pod     PodRef `json:"pod"`
	// Index is the position in the pod's plan, from 0. Attachments are added in this order and
	// deleted in reverse.
	Index      int        `json:"index"`
	Attachment Attachment `json:"attachment"`
	// Hardware is the device of a resource pool, or nil if the allocated device represents the
	// network itself.
	Hardware *Hardware `json:"hardware,omitempty"`
	// OfPool is the device of another driver that the network has by its resource pool, or nil.
	OfPool *OtherDriverDevice `json:"ofPool,omitempty"`
	// DeviceOnly is set if Attachment is empty: containers get the device without a network.
	DeviceOnly bool `json:"deviceOnly,omitempty"`
	// Static is set for a pod that the kubelet has from a file, and the API server maybe not.
	Static bool `json:"static,omitempty"`
}

// Unclaimed reports whether this is an attachment without a claim, of which the scheduler does not
// know.
func (p Prepared) Unclaimed() bool { return p.Claim == ClaimRef{} }
