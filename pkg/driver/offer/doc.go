// Package offer decides what nodes offer: which networks a node can attach, the devices that list them, and
// the profile by which nodes that offer the same share their slices. It is pure: the driver answers Prepare by
// it, and the controller writes the shared slices by it.
package offer
