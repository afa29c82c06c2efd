// Package claimstatus stores the state of a claim's devices in its status.devices
// (KEP-4817).
package claimstatus
