package attach

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestCostOfAPod counts what does not depend on the clock: writes, writes that the pod waits
// for, plugin chains and inspections of the namespace. Every pod of the node waits for
// whatever is added here (docs/reference/performance-tables.md).
func TestCostOfAPod(t *testing.T) {
	for _, tt := range []struct {
		claims, networks                     int
		attachInspections, detachInspections int
	}{
		{claims: 1, networks: 1, attachInspections: 1, detachInspections: 1},
		{claims: 1, networks: 8, attachInspections: 1, detachInspections: 1},
		{claims: 3, networks: 6, attachInspections: 1, detachInspections: 1},
	} {
		t.Run(fmt.Sprintf("%d networks in %d claims", tt.networks, tt.claims), func(t *testing.T) {
			a, k := newAttacher(t)
			groups := make([][]string, tt.claims)
			for i := range tt.networks {
				c := i * tt.claims / tt.networks
				groups[c] = append(groups[c], fmt.Sprintf("net%d", i+1))
			}
			drivertest.PrepareWeb(t, a.Store, groups...)
			cost := func(what string, wantWrites, wantWaited uint64, wantInspections, wantPlugins int, do func() error) {
				t.Helper()
				writes, waited := a.Store.Writes()
				k.Inspections, k.Calls = 0, nil
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				writesNow, waitedNow := a.Store.Writes()
				drivertest.Same(t, "writes of "+what, wantWrites, writesNow-writes)
				drivertest.Same(t, "writes of "+what+" that are waited for", wantWaited, waitedNow-waited)
				drivertest.Same(t, "inspections of "+what, wantInspections, k.Inspections)
				drivertest.Same(t, "plugin chains of "+what, wantPlugins, len(k.Calls))
			}
			claims := uint64(tt.claims)
			all := func(checkpoint.Record) bool { return true }
			cost("attaching", 2*claims, claims, tt.attachInspections, tt.networks, func() error { return attachOnce(t, a, drivertest.SandboxNo(1)) })
			cost("a repeated hook", 0, 0, 0, 0, func() error { return attachOnce(t, a, drivertest.SandboxNo(1)) })
			cost("detaching", claims, 0, tt.detachInspections, tt.networks, func() error { return a.Detach(t.Context(), drivertest.Web.UID, all) })
			cost("a repeated stop", 0, 0, 0, 0, func() error { return a.Detach(t.Context(), drivertest.Web.UID, all) })
		})
	}
}

// TestCostOfATryThatFails checks that a try which fails halfway records what it has made
// with one write.
func TestCostOfATryThatFails(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2", "net3", "net4"})
	k.Failures["ADD net3"] = drivertest.Final("no free address")
	if err := a.try(t.Context(), drivertest.SandboxNo(1)); err == nil {
		t.Fatal("the attempt has succeeded")
	}
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{
		"net1": checkpoint.Attached, "net2": checkpoint.Attached, "net3": checkpoint.Attaching, "net4": checkpoint.Prepared,
	}, drivertest.Phases(a.Store))
}

// TestNothingIsAttachedUnrecorded checks that no plugin runs if the disk takes no record.
func TestNothingIsAttachedUnrecorded(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	claims := a.Store.Dir()
	if err := os.Rename(claims, claims+".away"); err != nil {
		t.Fatal(err)
	}
	if err := a.try(t.Context(), drivertest.SandboxNo(1)); !errors.As(err, new(transient)) {
		t.Errorf("error %v, want one after which it is tried again", err)
	}
	drivertest.Same(t, "plugins", nil, k.Calls)
	if err := os.Rename(claims+".away", claims); err != nil {
		t.Fatal(err)
	}
	if err := a.try(t.Context(), drivertest.SandboxNo(1)); err != nil {
		t.Error(err)
	}
}
