// Package slicewriter brings together the DRA pools of several publishers, because the
// kubeletplugin library takes all pools of a driver at once:
//
//	writer.go      hands the pools to the library
//	tracker.go     tracks whether the API server has them
//	features.go    asks the API server which fields it keeps
//	attributes.go  attributes, capacities and names that all publishers use
package slicewriter
