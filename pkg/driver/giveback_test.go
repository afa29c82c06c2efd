package driver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// attachedByNadra attaches pod solo's sandbox without a claim, on a node on which Multus has been.
func (n *multusNode) attachedByNadra(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(n.custody.dir.Multus, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.RunPodSandbox(t.Context(), n.pod()); err != nil {
		t.Fatal(err)
	}
	if err := n.store.MarkStatusStored(n.store.ForPod("solo-uid")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(n.custody.dir.Runtime, "cbr0-"+n.id+"-eth0"),
		`{"kind":"cniCacheV1","containerId":"`+n.id+`","ifName":"eth0","networkName":"cbr0","config":"e30=","netns":"/run/netns/x",`+
			`"cniArgs":[["K8S_POD_NAMESPACE","default"],["K8S_POD_NAME","solo"],["K8S_POD_UID","solo-uid"]]}`)
	n.held(t, multusstate.Nobody, bothAttached)
	n.k.Calls = nil
}

// TestPodWithoutAClaimIsHandedOver checks that a pod that nadra has attached is Multus' when the node is,
// and can be adopted.
func TestPodWithoutAClaimIsHandedOver(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByNadra(t)
		n.look(t)
		n.held(t, multusstate.Nobody, bothAttached) // the node is nadra's
		n.belongs(false)
		n.look(t)
		n.held(t, multusstate.Multus, bothAttached)
		n.calls(t, true)
		n.look(t)
		n.held(t, multusstate.Multus, noPhases)
		n.calls(t, false)
		n.belongs(true)
		n.look(t)
		n.held(t, multusstate.Nadra, bothAttached)
		drivertest.Same(t, "plugins", []string(nil), n.k.Calls)
	})
}

// TestHandOverWaits checks which pods are not handed over: nadra runs their DELs.
func TestHandOverWaits(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *multusNode){
		"Multus has never been on the node": func(t *testing.T, n *multusNode) {
			if err := os.RemoveAll(n.custody.dir.Multus); err != nil {
				t.Fatal(err)
			}
		},
		"the runtime has no entry of eth0": func(t *testing.T, n *multusNode) {
			if err := os.RemoveAll(n.custody.dir.Runtime); err != nil {
				t.Fatal(err)
			}
		},
		"the sandbox is gone": func(_ *testing.T, n *multusNode) { n.k.End(sandboxOf(n.pod(), nowhere)) },
	} {
		t.Run(name, func(t *testing.T) {
			inMultusNode(t, func(t *testing.T, n *multusNode) {
				n.attachedByNadra(t)
				change(t, n)
				n.belongs(false)
				n.look(t)
				n.held(t, multusstate.Nobody, bothAttached)
			})
		})
	}
}

// TestInterruptedHandOverContinues checks that a sandbox is not Multus' before its records say so.
func TestInterruptedHandOverContinues(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByNadra(t)
		records := n.store.ForPod("solo-uid")
		s := multusstate.Sandbox{ID: n.id, Pod: records[0].Pod, NetNS: records[0].Sandbox.NetNS}
		if written, err := n.custody.dir.HandOver(s); !written || err != nil {
			t.Fatalf("%t, %v", written, err)
		}
		if err := n.adopter.giveBackOne(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		n.held(t, multusstate.Nadra, bothAttached)
		n.belongs(false)
		n.look(t)
		n.held(t, multusstate.Multus, bothAttached)
	})
}

// TestEndedSandboxIsNotGivenBack checks that nadra runs the DELs of an adopted sandbox that has ended when
// the node goes to Multus, which nobody calls for it.
func TestEndedSandboxIsNotGivenBack(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		n.look(t)
		n.k.End(sandboxOf(n.pod(), nowhere))
		n.belongs(false)
		n.calls(t, true)
		n.look(t)
		n.held(t, multusstate.Nadra, bothAttached)
		n.Driver.sweeper.sweep(t.Context(), false)
		time.Sleep(tidyEvery)
		n.look(t)
		n.held(t, multusstate.Nobody, noPhases)
		drivertest.Same(t, "plugins", []string{`DEL net2 in ` + n.id + ` netns ""`, `DEL net1 in ` + n.id + ` netns ""`}, n.k.Calls)
	})
}

// TestToHandOver checks the records of which pods are handed over.
func TestToHandOver(t *testing.T) {
	record := func(change func(*checkpoint.Record)) checkpoint.Record {
		r := checkpoint.Record{Phase: checkpoint.Attached, StatusStored: true, Sandbox: &attachment.Sandbox{ID: "s1"}}
		change(&r)
		return r
	}
	attached := record(func(*checkpoint.Record) {})
	for name, tt := range map[string]struct {
		records []checkpoint.Record
		want    int
	}{
		"attached without a claim": {[]checkpoint.Record{attached, attached}, 2},
		"nothing":                  {nil, 0},
		"with a claim":             {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) { r.Claim.UID = "claim" })}, 0},
		"adopted, and one added":   {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) { r.Adopted = true })}, 0},
		"being attached":           {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) { r.Phase = checkpoint.Attaching })}, 0},
		"to be attached":           {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) { r.Phase = checkpoint.Prepared })}, 0},
		"without network-status":   {[]checkpoint.Record{record(func(r *checkpoint.Record) { r.StatusStored = false })}, 0},
		"of two sandboxes":         {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) { r.Sandbox = &attachment.Sandbox{ID: "s2"} })}, 0},
		"one removed by an edit": {[]checkpoint.Record{attached, record(func(r *checkpoint.Record) {
			r.Phase, r.Removed = checkpoint.Prepared, true
		})}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, ready := toHandOver(tt.records)
			if len(got) != tt.want || ready != (tt.want > 0) {
				t.Errorf("%d records, ready: %t, want %d", len(got), ready, tt.want)
			}
		})
	}
}
