package inventory

// Remember adds facts from an earlier inventory to functions that a pod has now: their
// interfaces and, in exclusive mode, their RDMA devices are in the pod's namespace. Without
// these facts the function would change its pool while it is in use. A function with another
// driver gets none.
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
