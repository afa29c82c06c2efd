// Package claimstatus stores the state of a claim's devices in its status.devices
// (KEP-4817):
//
//	devices.go  the status of one device
//	writer.go   writes them behind a queue
package claimstatus
