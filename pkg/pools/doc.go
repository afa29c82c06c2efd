// Package pools decides which network hardware belongs to which resource pool. It reads the
// existing configurations of clusters: the ConfigMaps of the SR-IOV device plugin and of the
// RDMA shared device plugin, and SriovNetworkNodePolicy. It is pure: objects and an
// inventory in, assignments and errors out.
//
// A pool with an unknown field is refused as a whole: without that field it would select
// more than its author meant. Every error has a code (pkg/api/reason): PoolInvalid or
// PoolConflict.
package pools
