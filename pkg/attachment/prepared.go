package attachment

// Prepared is an attachment bound to the allocated device that it was made
// from. It is self-contained: with it and a Sandbox, ADD and DEL need neither
// the claim nor the NetworkAttachmentDefinition any more.
type Prepared struct {
	Claim ClaimRef `json:"claim"`
	// Request, Pool, Device and ShareID are those of the allocation result.
	// ShareID is empty where the device is not shared.
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	ShareID string `json:"shareID,omitempty"`
	Pod     PodRef `json:"pod"`
	// Index is the position in the pod's plan, from 0. Attachments are made in
	// this order and taken down in reverse.
	Index      int        `json:"index"`
	Attachment Attachment `json:"attachment"`
	// Hardware is the device of a resource pool; nil where the allocated device
	// stands for the network itself.
	Hardware *Hardware `json:"hardware,omitempty"`
	// DeviceOnly says that Attachment is empty: containers get the device, and
	// nothing is attached.
	DeviceOnly bool `json:"deviceOnly,omitempty"`
}
