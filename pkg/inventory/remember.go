package inventory

// Remember fills in what cannot be seen of functions that a pod has now, from
// an earlier inventory: their interfaces and, in exclusive mode, RDMA devices are
// in the pod's namespace. Without it such a function would change its pool while
// it is used. A function with another driver is not the same any more.
func (i Inventory) Remember(earlier Inventory) {
	before := make(map[string]*Function, len(earlier.Functions))
	for k := range earlier.Functions {
		before[earlier.Functions[k].ID] = &earlier.Functions[k]
	}
	for k := range i.Functions {
		f := &i.Functions[k]
		b, ok := before[f.ID]
		if !ok || len(f.Netdevs) > 0 || b.Driver != f.Driver || b.Vendor != f.Vendor || b.Device != f.Device {
			continue
		}
		if f.LinkType == "" {
			f.LinkType = b.LinkType
		}
		if f.PKey == "" {
			f.PKey = b.PKey
		}
		f.RDMACapable = f.RDMACapable || b.RDMACapable
	}
}
