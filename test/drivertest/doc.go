// Package drivertest has what the tests of the driver's packages share.
package drivertest
