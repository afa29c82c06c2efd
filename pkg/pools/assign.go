package pools

import (
	"errors"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Assignment is a function's place in a pool.
type Assignment struct {
	// Function and Pool are indexes of the slices that were passed to Assign.
	Function, Pool int
	// Selector is the index of the pool's selector by which the function belongs to it.
	// It decides what pods get besides the function.
	Selector int
}

// Assign gives each function to at most one pool, the first that selects it, as the device
// plugin does. The assignments are in the order of functions. The error has an entry for
// every two pools that select the same functions, and for every shared pool that the node
// cannot serve.
func Assign(host inventory.Inventory, pools []Pool) ([]Assignment, error) {
	holders := make([]Assignment, len(host.Functions))
	for i := range holders {
		holders[i] = Assignment{Function: i, Pool: -1}
	}
	var errs []error
	for p := range pools {
		if pools[p].DeviceType == SharedRDMA && host.RDMAMode == inventory.RDMAExclusive {
			errs = append(errs, pools[p].Source.errorf("pool %s shares RDMA devices, but this node's RDMA subsystem is in exclusive mode, in which a device belongs to one network namespace: "+
				"set the mode to shared (rdma system set netns shared), or remove the pool", pools[p].ResourceName))
			continue
		}
		errs = append(errs, fill(host.Functions, pools, p, holders)...)
	}
	out := make([]Assignment, 0, len(holders))
	for _, a := range holders {
		if a.Pool >= 0 {
			out = append(out, a)
		}
	}
	return out, errors.Join(errs...)
}

// fill gives a pool the functions that it selects, except those of earlier pools.
func fill(functions []inventory.Function, pools []Pool, p int, holders []Assignment) []error {
	lost := map[int][]string{} // by the index of the pool that has them
	for i := range functions {
		f := &functions[i]
		selector := pools[p].selects(f)
		if selector < 0 {
			continue
		}
		if holder := holders[i].Pool; holder >= 0 {
			lost[holder] = append(lost[holder], f.ID)
			continue
		}
		holders[i].Pool, holders[i].Selector = p, selector
	}
	var errs []error
	for holder := range p {
		if ids := lost[holder]; len(ids) > 0 {
			errs = append(errs, pools[p].Source.conflict("pool %s selects %s (%s first) that belong to pool %s of %s, which has precedence: narrow one of the selectors",
				pools[p].ResourceName, words.Count(len(ids), "device"), ids[0], pools[holder].ResourceName, pools[holder].Source))
		}
	}
	return errs
}

// selects returns the index of the first selector that selects the function, or -1.
func (p *Pool) selects(f *inventory.Function) int {
	if !offered(p.DeviceType, f) {
		return -1
	}
	for i := range p.Selectors {
		if p.Selectors[i].Matches(f) {
			return i
		}
	}
	return -1
}
