// Package hwdevices publishes the functions of network cards that belong to resource pools
// as ResourceSlices, and describes what pods get with them.
package hwdevices
