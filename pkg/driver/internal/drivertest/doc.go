// Package drivertest has what the tests of the driver's packages share:
//
//	records.go  records, pods and sandboxes
//	kernel.go   CNI plugins and the network namespaces that they change
//	nads.go     NetworkAttachmentDefinitions
//	slices.go   ResourceSlices of another driver
//	compare.go  comparisons
package drivertest
