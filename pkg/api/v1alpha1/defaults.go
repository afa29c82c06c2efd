package v1alpha1

// DefaultProtocol is the protocol of a port mapping that names none
// (behaviour A2-20).
const DefaultProtocol = "tcp"

// SetDefaults fills in what a config may leave out.
func SetDefaults(c *AttachmentConfig) {
	for i := range c.PortMappings {
		if c.PortMappings[i].Protocol == "" {
			c.PortMappings[i].Protocol = DefaultProtocol
		}
	}
}
