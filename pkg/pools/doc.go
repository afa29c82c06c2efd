// Package pools decides which network hardware belongs to which resource pool. It reads the
// existing configurations of clusters: the ConfigMaps of the SR-IOV device plugin and of the
// RDMA shared device plugin, and SriovNetworkNodePolicy. It is pure: objects and an
// inventory in, assignments and errors out.
//
//	pool.go         pools, their sources and names
//	sriovplugin.go  the device plugins' configurations
//	policy.go       SriovNetworkNodePolicy
//	selector.go     parsing selectors
//	fields.go       decoding JSON field by field
//	match.go        which functions a selector selects
//	assign.go       which pool gets which function
//
// A pool with an unknown field is refused as a whole: without that field it would select
// more than its author meant. Every error has a code (pkg/api/reason): PoolInvalid or
// PoolConflict.
package pools
