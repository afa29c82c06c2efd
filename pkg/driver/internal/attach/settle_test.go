package attach

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestDuplicateAddressDetection checks that an attach waits until the kernel knows whether a new IPv6 address is
// another host's, fails if it is, and does not wait for ever, nor for addresses that no plugin has made.
func TestDuplicateAddressDetection(t *testing.T) {
	five, other := netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fe80::1")
	for name, c := range map[string]struct {
		ip    string
		first podnet.Address
		ends  time.Duration // of the detection
		takes time.Duration
		found bool // a duplicate
	}{
		"unique":           {ip: "fd00::5/64", first: podnet.Address{IP: five, Tentative: true}, ends: time.Second, takes: time.Second},
		"settled already":  {ip: "fd00::5/64", first: podnet.Address{IP: five}},
		"another host's":   {ip: "fd00::5/64", first: podnet.Address{IP: five, Tentative: true}, ends: time.Second, takes: time.Second, found: true},
		"without an end":   {ip: "fd00::5/64", first: podnet.Address{IP: five, Tentative: true}, ends: time.Hour, takes: settleTime},
		"not the plugin's": {ip: "fd00::5/64", first: podnet.Address{IP: other, Tentative: true}, ends: time.Hour},
		"IPv4":             {ip: "10.1.0.6/24", first: podnet.Address{IP: netip.MustParseAddr("10.1.0.6"), Tentative: true}, ends: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, k := newAttacher(t)
				drivertest.PrepareWeb(t, a.Store, []string{"net1"})
				k.IP = c.ip
				c.first.Interface = "net1"
				k.Addresses = []podnet.Address{c.first}
				began := time.Now()
				settles := time.AfterFunc(c.ends, func() {
					after := c.first
					after.Tentative, after.Duplicate = c.found, c.found
					k.SetAddresses(after)
				})
				defer settles.Stop()
				err := attachOnce(t, a, drivertest.SandboxNo(1))
				if took := time.Since(began); took < c.takes || took > c.takes+settlePoll {
					t.Errorf("the attach takes %s, want %s", took, c.takes)
				}
				want := checkpoint.Attached
				if c.found {
					drivertest.WantReason(t, err, reason.AddressDuplicate, "fd00::5", "net1")
					want = checkpoint.Prepared
				} else if err != nil {
					t.Fatal(err)
				}
				drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": want}, drivertest.Phases(a.Store))
				drivertest.Same(t, "interface", !c.found, k.Has["sandbox-1/net1"])
			})
		})
	}
}

// TestDuplicateAddressIsNotAttached checks that an address of another host is none after any number of tries, of
// which no records say in between that the pod has its networks: the gate would open.
func TestDuplicateAddressIsNotAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
		k.IP = "fd00::5/64"
		k.Addresses = []podnet.Address{{Interface: "net1", IP: netip.MustParseAddr("fd00::5"), Tentative: true, Duplicate: true}}
		tries := 0
		err := a.Attach(t.Context(), drivertest.SandboxNo(1), func(err error, _ bool) bool {
			drivertest.WantReason(t, err, reason.AddressDuplicate, "net1")
			if drivertest.Phases(a.Store)["net1"] != checkpoint.Attaching {
				t.Errorf("phases after a try: %v", drivertest.Phases(a.Store))
			}
			tries++
			return tries < 3
		})
		drivertest.WantReason(t, err, reason.AddressDuplicate, "net1")
		drivertest.Same(t, "tries", 3, tries)
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Prepared, "net2": checkpoint.Prepared}, drivertest.Phases(a.Store))
	})
}
