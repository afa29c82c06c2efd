package v1alpha1

// defaultProtocol is the protocol of a port mapping without one (behaviour A2-20).
const defaultProtocol = "tcp"

// SetDefaults sets the defaults of optional fields.
func SetDefaults(c *AttachmentConfig) {
	for i := range c.PortMappings {
		if c.PortMappings[i].Protocol == "" {
			c.PortMappings[i].Protocol = defaultProtocol
		}
	}
}
