package publish

import (
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// candidate is a network, and what decides whether this node publishes it.
type candidate struct {
	*offer.Definition
	// unusable is why the node cannot attach the network, or nil.
	unusable error
	// pooled is set if the network has no device of its own, because its pods get one of nadra's pools.
	pooled error
	// owned is true if the node is nadra's.
	owned bool
	// status is what the network's plugins answer.
	status pluginStatus
	// published is true if the latest decision was to publish the network. before is what the View has of that decision.
	published bool
	before    viewed
}

// pluginStatus is the answer of a network's plugins to STATUS.
type pluginStatus struct {
	// asked is false if nobody asks the plugins: their CNI version has no STATUS.
	asked bool
	// answered is true after the first answer, overdue if it has not come in time.
	answered, overdue bool
	// err is the error in the latest answer, or nil.
	err error
}

// The reasons that are the same for all networks. There may be thousands of them.
var (
	errNodeNotOwned  = reason.Errorf(reason.NodeNotOwned, "the node's networks are not nadra's")
	errStatusPending = reason.Errorf(reason.StatusPending, "its plugins have not answered STATUS yet")
)

// decide returns nil if a network is to be published on this node. Otherwise it returns
// the reason, an error with a code. ResourceSlices, log, metrics and the health of devices
// go by it.
//
// A network whose configuration has changed stays published until its plugins answer for
// the new one. A new network waits for the first answer.
func decide(c candidate) error {
	switch {
	case c.unusable != nil:
		return c.unusable
	case c.pooled != nil:
		return c.pooled
	case !c.owned:
		return errNodeNotOwned
	case !c.status.asked:
		return nil
	case !c.status.answered && !c.status.overdue && !c.published:
		return errStatusPending
	case c.status.answered && c.status.err != nil:
		return reason.Errorf(reason.PluginUnhealthy, "a plugin answers STATUS with an error: %s", cniexec.Message(c.status.err))
	}
	return nil
}

// asksStatus reports whether the network's plugins are to be asked: whether nothing but
// their answer decides.
func (c candidate) asksStatus() bool {
	c.status = pluginStatus{}
	return decide(c) == nil && c.Network.HasStatus()
}

// health returns what the network's plugins answer, as far as it decides about the node's profile.
func (c candidate) health() offer.Health {
	switch {
	case !c.status.asked || !c.status.answered:
		return offer.Unasked
	case c.status.err != nil:
		return offer.Unhealthy
	}
	return offer.Healthy
}
