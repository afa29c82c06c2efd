package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// What a pod costs in things that do not depend on the clock: writes, those of
// them that wait for the disk, plugin chains, looks into its namespace. Whoever raises one
// has every pod of the node wait for it (docs/performance.md).
func TestCostOfAPod(t *testing.T) {
	for _, tt := range []struct {
		claims, networks         int
		attachLooks, detachLooks uint64
	}{
		{claims: 1, networks: 1, attachLooks: 1, detachLooks: 1},
		{claims: 1, networks: 8, attachLooks: 1, detachLooks: 1},
		{claims: 3, networks: 6, attachLooks: 1, detachLooks: 1},
	} {
		t.Run(fmt.Sprintf("%d networks in %d claims", tt.networks, tt.claims), func(t *testing.T) {
			a, k := newAttacher(t)
			looks := uint64(0)
			look := a.look
			a.look = func(netns string) (namespace, error) { looks++; return look(netns) }
			groups := make([][]string, tt.claims)
			for i := range tt.networks {
				c := i * tt.claims / tt.networks
				groups[c] = append(groups[c], fmt.Sprintf("net%d", i+1))
			}
			prepareWeb(t, a.store, groups...)
			cost := func(what string, wantWrites, wantWaited, wantLooks uint64, wantPlugins int, do func() error) {
				t.Helper()
				writes, waited := a.store.Writes()
				looks, k.calls = 0, nil
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				writesNow, waitedNow := a.store.Writes()
				same(t, "writes of "+what, wantWrites, writesNow-writes)
				same(t, "writes of "+what+" that are waited for", wantWaited, waitedNow-waited)
				same(t, "looks of "+what, wantLooks, looks)
				same(t, "plugin chains of "+what, wantPlugins, len(k.calls))
			}
			claims := uint64(tt.claims)
			all := func(checkpoint.Record) bool { return true }
			cost("attaching", 2*claims, claims, tt.attachLooks, tt.networks, func() error { return k.attachOnce(t, a, sandboxNo(1)) })
			cost("a repeated hook", 0, 0, 0, 0, func() error { return k.attachOnce(t, a, sandboxNo(1)) })
			cost("detaching", claims, 0, tt.detachLooks, tt.networks, func() error { return a.detach(t.Context(), web.UID, all) })
			cost("a repeated stop", 0, 0, 0, 0, func() error { return a.detach(t.Context(), web.UID, all) })
		})
	}
}

// An attempt that fails half way keeps what it has made, and writes that once.
func TestCostOfAnAttemptThatFails(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2", "net3", "net4"})
	k.fail["ADD net3"] = final("no free address")
	if err := a.attempt(t.Context(), sandboxNo(1)); err == nil {
		t.Fatal("the attempt has succeeded")
	}
	same(t, "phases", map[string]checkpoint.Phase{
		"net1": checkpoint.Attached, "net2": checkpoint.Attached, "net3": checkpoint.Attaching, "net4": checkpoint.Prepared,
	}, phases(a.store))
}

// A disk that takes no record keeps the plugins from running: nothing is made
// that nobody knows of.
func TestNothingIsAttachedUnrecorded(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2"})
	claims := a.store.Dir()
	if err := os.Rename(claims, claims+".away"); err != nil {
		t.Fatal(err)
	}
	if err := a.attempt(t.Context(), sandboxNo(1)); !errors.As(err, new(again)) {
		t.Errorf("error %v, want one after which it is tried again", err)
	}
	same(t, "plugins", nil, k.calls)
	if err := os.Rename(claims+".away", claims); err != nil {
		t.Fatal(err)
	}
	if err := a.attempt(t.Context(), sandboxNo(1)); err != nil {
		t.Error(err)
	}
}

// A pod with three networks of one claim asks the API server for two things,
// once it is attached: the claim's status, and the pod's network-status.
func TestRequestsOfAPod(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("c", "blue", "blue", "blue"))
	pod, c := objects()
	kube := fake.NewClientset(pod, c)
	wanted := []string{"patch pods/status", "patch resourceclaims/status"}
	asked := func() []string {
		var out []string
		for _, a := range kube.Actions() {
			out = append(out, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
		}
		slices.Sort(out)
		return out
	}
	d.claimStatus.kube, d.networkStatus.kube = kube, kube
	h := &hooks{d: d, budget: func() time.Duration { return time.Minute }, attachWait: time.Minute}
	if err := h.RunPodSandbox(t.Context(), podNo(1)); err != nil {
		t.Fatal(err)
	}
	same(t, "requests within the hook", nil, asked())
	written(t, d, func() error {
		if got := asked(); len(got) < len(wanted) {
			return fmt.Errorf("requests so far: %q", got)
		}
		return nil
	})
	same(t, "requests", wanted, asked())
}
