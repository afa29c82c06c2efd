// Package cdi writes the CDI specs by which containers get nadra-gate and the device
// files of their claims, and installs the gate's binary on the host:
//
//	specs.go    a spec for each claim: written by Prepare, removed by Unprepare, restored at the driver's start
//	devices.go  the devices of a spec, and their names
//	gate.go     the gate's binary and its arguments
package cdi
