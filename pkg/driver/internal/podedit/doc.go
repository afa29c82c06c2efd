// Package podedit decides what an edit of a running pod's networks annotation changes: which
// attachments end, which begin, with which interface, and in which order network-status lists
// all of them. It acts on nothing.
//
//	plan.go   the change from what a pod has to what its annotation asks for
//	match.go  which attachment an element of the annotation means
//	keep.go   what an edit cannot remove
//	names.go  interfaces of added networks
package podedit
