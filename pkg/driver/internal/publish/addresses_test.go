package publish

import (
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// TestNoAddresses checks that a network without addresses is not published: the API server would refuse the
// slice, and with it all networks.
func TestNoAddresses(t *testing.T) {
	b := newBench(t)
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	_ = b.nads.Add(drivertest.NAD("none", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","rangeEnd":"10.0.0.10"}}`))
	b.sync(t)
	if got := b.Published(); len(got) != 1 || got[0] != "node-0-0" {
		t.Errorf("published %v", got)
	}
	_, err := b.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "none"})
	if reason.Of(err) != reason.NetworkInvalid {
		t.Errorf("error %v", err)
	}
}
