package driver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// multusNode is a node that Multus has served. Its driver knows pod solo, of which Multus has attached
// a sandbox.
type multusNode struct {
	*world
	id string
}

// inMultusNode runs a test on a node with the driver's files in a directory of its own. The node is
// nadra's, and the runtime does not call Multus.
func inMultusNode(t *testing.T, test func(*testing.T, *multusNode)) {
	t.Helper()
	s := setup{cfg: func(c *Config) {
		c.MultusDir, c.CNIConfDir = "/var/lib/cni/multus", "/etc/cni/net.d"
		c.Ownership = Ownership{Label: "nadra.dev/owner", Value: "nadra", Unclaimed: AttachUnclaimed}
	}}
	inWorldWith(t, s, blueConf, func(t *testing.T, w *world) {
		w.knows(t, "solo-uid", nil)
		n := &multusNode{w, strings.Repeat("a", 64)}
		writeFile(t, filepath.Join(w.cfg.HostRoot, "etc/cni/net.d/10-default.conf"), `{"cniVersion":"0.3.1","name":"cbr0","type":"flannel"}`)
		n.belongs(true)
		test(t, n)
	})
}

// belongs makes the node nadra's or Multus'.
func (n *multusNode) belongs(toNadra bool) {
	n.owner.seen.Store(true)
	n.owner.labelled.Store(toNadra)
}

// calls makes the runtime call Multus, or not.
func (n *multusNode) calls(t *testing.T, multus bool) {
	t.Helper()
	path := filepath.Join(n.cfg.HostRoot, "etc/cni/net.d/00-multus.conf")
	if !multus {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	writeFile(t, path, `{"cniVersion":"0.3.1","name":"multus-cni-network","type":"multus-shim"}`)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// attachedByMultus writes what Multus has of pod solo's sandbox: it has attached these interfaces.
func (n *multusNode) attachedByMultus(t *testing.T, interfaces ...string) {
	t.Helper()
	delegates := []map[string]any{{"Name": "cbr0", "Bytes": []byte(`{"name":"cbr0","type":"flannel"}`)}}
	entry := func(network, ifName, config string) {
		text, err := json.Marshal(map[string]any{
			"kind": "cniCacheV1", "containerId": n.id, "config": []byte(config), "ifName": ifName, "networkName": network, "netns": "/run/netns/x",
			"cniArgs": [][2]string{{"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "solo"}, {"K8S_POD_UID", "solo-uid"}},
			"result":  map[string]any{"cniVersion": "1.0.0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(n.custody.dir.Multus, "results", network+"-"+n.id+"-"+ifName), string(text))
	}
	entry("cbr0", "eth0", `{"cniVersion":"1.0.0","name":"cbr0","type":"flannel"}`)
	for _, ifName := range interfaces {
		delegates = append(delegates, map[string]any{"Name": "default/blue", "ifnameRequest": ifName, "Bytes": []byte(blueConf)})
		entry("blue", ifName, blueConf)
	}
	text, err := json.Marshal(delegates)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(n.custody.dir.Multus, n.id), string(text))
}

// look makes the adopter look once.
func (n *multusNode) look(t *testing.T) {
	t.Helper()
	if err := n.adopter.look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// held checks who has to delete the attachments of pod solo, and the records of them.
func (n *multusNode) held(t *testing.T, holder multusstate.Holder, phases map[string]checkpoint.Phase) {
	t.Helper()
	if got := n.custody.dir.Holder(n.id); got != holder {
		t.Errorf("held by %d, want %d", got, holder)
	}
	drivertest.Same(t, "phases", phases, n.phasesOfSolo())
}

// pod returns pod solo's sandbox, as the runtime describes it.
func (n *multusNode) pod() *nri.PodSandbox {
	return with(asking("solo", "blue@net1,blue@net2"), func(p *nri.PodSandbox) { p.Id = n.id })
}

var noPhases = map[string]checkpoint.Phase{}

// TestAdoptedPodEndsWithOneDEL follows a pod that Multus has attached from its adoption to its end.
func TestAdoptedPodEndsWithOneDEL(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		n.look(t)
		n.held(t, multusstate.Nadra, bothAttached)
		drivertest.Same(t, "plugins", []string(nil), n.k.Calls)
		if events := eventsOf(t, n.Driver); !slices.ContainsFunc(events, func(e string) bool {
			return strings.Contains(e, reason.EventNetworksAdopted) && strings.Contains(e, "1 sandboxes with 2 networks")
		}) {
			t.Errorf("events %q", events)
		}
		n.look(t) // there is nothing more to do
		if err := n.StopPodSandbox(t.Context(), n.pod()); err != nil {
			t.Fatal(err)
		}
		n.k.End(sandboxOf(n.pod(), nowhere))
		time.Sleep(tidyEvery)
		n.look(t)
		n.held(t, multusstate.Nobody, noPhases)
		drivertest.Same(t, "plugins", []string{`DEL net2 in ` + n.id + ` netns "/run/netns/x"`, `DEL net1 in ` + n.id + ` netns "/run/netns/x"`}, n.k.Calls)
		if left, _ := filepath.Glob(filepath.Join(n.cfg.HostRoot, "var/lib/cni/*", "*"+n.id+"*")); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	})
}

// TestAdoptionWaits checks when the driver leaves Multus' sandboxes alone.
func TestAdoptionWaits(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *multusNode){
		"the runtime calls Multus": func(t *testing.T, n *multusNode) { n.calls(t, true) },
		"no configuration is known": func(t *testing.T, n *multusNode) {
			if err := os.RemoveAll(filepath.Join(n.cfg.HostRoot, "etc/cni/net.d")); err != nil {
				t.Fatal(err)
			}
		},
		"the node is Multus'":  func(_ *testing.T, n *multusNode) { n.belongs(false) },
		"the owner is unknown": func(_ *testing.T, n *multusNode) { n.owner.seen.Store(false) },
		"Multus is attaching": func(t *testing.T, n *multusNode) {
			if err := os.Remove(filepath.Join(n.custody.dir.Multus, "results", "blue-"+n.id+"-net2")); err != nil {
				t.Fatal(err)
			}
		},
		"Multus has begun": func(t *testing.T, n *multusNode) {
			if err := os.RemoveAll(filepath.Join(n.custody.dir.Multus, "results")); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			if err := os.Chtimes(filepath.Join(n.custody.dir.Multus, n.id), now, now); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMultusNode(t, func(t *testing.T, n *multusNode) {
				n.attachedByMultus(t, "net1", "net2")
				change(t, n)
				n.look(t)
				n.held(t, multusstate.Multus, noPhases)
			})
		})
	}
}

// TestInterruptedAdoptionContinues checks that a sandbox whose records are written is taken later.
func TestInterruptedAdoptionContinues(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		sandboxes, _, err := n.custody.dir.Sandboxes()
		if err != nil {
			t.Fatal(err)
		}
		if recorded, err := n.adopter.record(t.Context(), sandboxes[0]); !recorded || err != nil {
			t.Fatalf("%t, %v", recorded, err)
		}
		n.held(t, multusstate.Multus, bothAttached)
		n.look(t)
		n.held(t, multusstate.Nadra, bothAttached)
	})
}

// TestGoneSandboxGetsItsDELs checks that a pod which ended while the node changed hands leaves nothing.
func TestGoneSandboxGetsItsDELs(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		n.k.End(sandboxOf(n.pod(), nowhere))
		n.k.Fail("DEL net1", drivertest.Final("no route to the server"))
		n.look(t)
		synctest.Wait()
		n.held(t, multusstate.Nadra, noPhases)
		n.k.Fail("DEL net1", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.look(t)
		n.held(t, multusstate.Nobody, noPhases)
		slices.Sort(n.k.Calls)
		drivertest.Same(t, "plugins", []string{`DEL net1 in ` + n.id + ` netns ""`, `DEL net2 in ` + n.id + ` netns ""`}, slices.Compact(n.k.Calls))
	})
}

// TestGivenBackPodIsMultus checks that a pod which was given back gets its DELs from one of the two: from
// nadra until the runtime calls Multus, and then from Multus.
func TestGivenBackPodIsMultus(t *testing.T) {
	for name, tt := range map[string]struct {
		configured, seen bool
		dels             int
	}{
		"before the runtime calls Multus":             {false, false, 2},
		"the runtime calls Multus, and nadra sees it": {true, true, 0},
		"the runtime calls Multus, not yet seen":      {true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inMultusNode(t, func(t *testing.T, n *multusNode) {
				n.attachedByMultus(t, "net1", "net2")
				n.look(t)
				n.belongs(false)
				n.look(t)
				n.held(t, multusstate.Multus, bothAttached)
				if tt.configured {
					n.calls(t, true)
				}
				if tt.seen {
					n.look(t)
					n.held(t, multusstate.Multus, noPhases)
				}
				if err := n.StopPodSandbox(t.Context(), n.pod()); err != nil {
					t.Fatal(err)
				}
				if len(n.k.Calls) != tt.dels {
					t.Errorf("plugins: %q, want %d DELs", n.k.Calls, tt.dels)
				}
				drivertest.Same(t, "phases", noPhases, n.phasesOfSolo())
			})
		})
	}
}

// TestAdoptedAgain checks that a pod can change hands several times.
func TestAdoptedAgain(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		for range 3 {
			n.look(t)
			n.held(t, multusstate.Nadra, bothAttached)
			n.belongs(false)
			n.look(t)
			n.calls(t, true)
			n.look(t)
			n.held(t, multusstate.Multus, noPhases)
			n.calls(t, false)
			n.belongs(true)
		}
		drivertest.Same(t, "plugins", []string(nil), n.k.Calls)
	})
}

// TestNewSandboxOfAnAdoptedPod checks that a pod that gets a new sandbox has its networks by the
// annotation, after the DELs of the old sandbox.
func TestNewSandboxOfAnAdoptedPod(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		n.look(t)
		second := with(n.pod(), func(p *nri.PodSandbox) { p.Id = "s2"; p.Linux.Namespaces[0].Path = "/run/netns/y" })
		if err := n.RunPodSandbox(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "plugins", []string{
			`DEL net2 in ` + n.id + ` netns "/run/netns/x"`, `DEL net1 in ` + n.id + ` netns "/run/netns/x"`,
			`ADD net1 in s2 netns "/run/netns/y"`, `ADD net2 in s2 netns "/run/netns/y"`,
		}, n.k.Calls)
		if slices.ContainsFunc(n.store.ForPod("solo-uid"), func(r checkpoint.Record) bool { return r.Adopted }) {
			t.Error("the new sandbox counts as adopted")
		}
	})
}

// TestSandboxThatMultusHasAttached checks that nadra attaches no sandbox a second time, which Multus has
// attached while the node changes hands.
func TestSandboxThatMultusHasAttached(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		if err := n.RunPodSandbox(t.Context(), n.pod()); err != nil {
			t.Fatal(err)
		}
		n.held(t, multusstate.Multus, noPhases)
		if _, err := n.Synchronize(t.Context(), []*nri.PodSandbox{n.pod()}, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		drivertest.Same(t, "plugins", []string(nil), n.k.Calls)
		n.look(t)
		n.held(t, multusstate.Nadra, bothAttached)
	})
}

// TestNewPodWhileTheNodeReturns checks that no pod starts without its networks on a node that is given
// back: nadra attaches it, unless Multus has.
func TestNewPodWhileTheNodeReturns(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.belongs(false)
		n.owner.returning.Store(true)
		if err := n.RunPodSandbox(t.Context(), n.pod()); err != nil {
			t.Fatal(err)
		}
		n.held(t, multusstate.Nobody, bothAttached)
		if err := n.StopPodSandbox(t.Context(), n.pod()); err != nil {
			t.Fatal(err)
		}
		n.k.Calls = nil
		n.attachedByMultus(t, "net1", "net2")
		if err := n.RunPodSandbox(t.Context(), n.pod()); err != nil {
			t.Fatal(err)
		}
		n.held(t, multusstate.Multus, noPhases)
		drivertest.Same(t, "plugins", []string(nil), n.k.Calls)
	})
}

// TestUnreadableSandboxIsReportedOnce checks that it stays Multus', and that others are adopted.
func TestUnreadableSandboxIsReportedOnce(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		broken := strings.Repeat("b", 64)
		writeFile(t, filepath.Join(n.custody.dir.Multus, broken), "[")
		for range 3 {
			n.look(t)
		}
		n.held(t, multusstate.Nadra, bothAttached)
		if n.custody.dir.Holder(broken) != multusstate.Multus {
			t.Error("the broken one is not Multus' any more")
		}
		var failed []string
		for _, e := range eventsOf(t, n.Driver) {
			if strings.Contains(e, reason.EventFailedAdoptNetwork) {
				failed = append(failed, e)
			}
		}
		if len(failed) != 1 || reason.In(failed[0]) != reason.NotAdopted || !strings.Contains(failed[0], broken[:12]) {
			t.Errorf("events %q", failed)
		}
	})
}

// TestAdoptedStatusIsLeftToMultus checks that neither a restart nor the sweep writes network-status of an
// adopted pod. A restart checks what is attached, as for all pods.
func TestAdoptedStatusIsLeftToMultus(t *testing.T) {
	inMultusNode(t, func(t *testing.T, n *multusNode) {
		n.attachedByMultus(t, "net1", "net2")
		n.look(t)
		if _, err := n.Synchronize(t.Context(), []*nri.PodSandbox{n.pod()}, nil); err != nil {
			t.Fatal(err)
		}
		n.Driver.sweeper.sweep(t.Context(), false)
		if _, writing := n.Driver.networkStatus.Pending(sandboxOf(n.pod(), nowhere).Pod); writing {
			t.Error("network-status is written")
		}
		synctest.Wait()
		drivertest.Same(t, "plugins", []string{`CHECK net1 in ` + n.id + ` netns "/run/netns/x"`, `CHECK net2 in ` + n.id + ` netns "/run/netns/x"`}, n.k.Calls)
	})
}
