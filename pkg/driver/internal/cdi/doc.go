// Package cdi writes the CDI specs by which containers get nadra-gate and the device
// files of their claims, and installs the gate's binary on the host.
package cdi
