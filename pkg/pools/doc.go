// Package pools knows which network hardware belongs to which resource pool. It
// reads the configurations that clusters have: the ConfigMaps of the SR-IOV device
// plugin and of the RDMA shared device plugin, and SriovNetworkNodePolicy. It is
// pure: objects and an inventory in, assignments and errors out.
//
// A pool that asks for what is not understood is refused as a whole, with an
// error: a selector that is left out would match more than was meant.
package pools
