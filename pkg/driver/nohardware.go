package driver

import "fmt"

// noHardware is the view of a node without resource pools.
type noHardware struct{}

func (noHardware) has(string) bool { return false }

func (noHardware) lookup(pool, device string) (*poolDevice, error) {
	return nil, fmt.Errorf("device %s of pool %s is not on this node", device, pool)
}
