package inventory

import "slices"

// rdma reads the function's RDMA devices and their files. In exclusive mode the devices are
// in the network namespace of the pod that uses them; the kernel still reports that the
// function can have some.
func (s *scan) rdma(f *Function, bus, dir string) {
	names := s.names(dir + "infiniband")
	if len(names) == 0 {
		f.RDMACapable = s.rdmaMode == RDMAExclusive && !f.VFIOBound() && s.kernel.RDMAParam(bus, f.ID)
		return
	}
	f.RDMACapable = true
	var files []charDevice
	for _, class := range []string{"infiniband_mad", "infiniband_verbs"} {
		for _, name := range s.names(dir + class) {
			files = append(files, charDevice{name, s.value(dir + class + "/" + name + "/ibdev")})
		}
	}
	for _, name := range names {
		f.RDMA = append(f.RDMA, RDMA{Name: name, CharDevices: s.charDevices(name, files)})
	}
	if f.LinkType == LinkInfiniband {
		f.PKey = s.value(dir + "infiniband/" + names[0] + "/ports/1/pkeys/0")
	}
}

// charDevice is a file umadN, issmN or uverbsN and its RDMA device.
type charDevice struct{ name, device string }

// charDevices returns the paths of an RDMA device's files.
func (s *scan) charDevices(device string, files []charDevice) []string {
	var out []string
	for _, f := range files {
		if f.device == device {
			out = append(out, "/dev/infiniband/"+f.name)
		}
	}
	slices.Sort(out)
	if s.rdmaCM {
		out = append(out, "/dev/infiniband/rdma_cm")
	}
	return out
}
