package driver

import (
	"testing"

	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

func TestAddedMessage(t *testing.T) {
	if got, want := addedMessage(drivertest.Attached("net1", drivertest.BridgeResult)), "Add net1 [10.1.0.5/24 fd00::5/64] from default/blue"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
