package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// hangingPlugin has plugins of which those with this type in their configuration hang in DEL.
type hangingPlugin struct {
	*drivertest.Kernel
	orphans []cniexec.Cached

	mu            sync.Mutex
	running, most int
}

// hang returns when ctx ends, and counts the calls that run at a time.
func (h *hangingPlugin) hang(ctx context.Context) error {
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running += n
		h.most = max(h.most, h.running)
	}
	count(1)
	defer count(-1)
	<-ctx.Done()
	return context.Cause(ctx)
}

const hangingConf = `{"plugins":[{"type":"hanging"}]}`

func (h *hangingPlugin) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	if string(a.Conflist) == hangingConf {
		return h.hang(ctx)
	}
	return h.Kernel.Del(ctx, s, a, result)
}

func (h *hangingPlugin) Orphans(func(string, string) bool) ([]cniexec.Cached, error) {
	return append([]cniexec.Cached(nil), h.orphans...), nil
}

func (h *hangingPlugin) DelOrphan(ctx context.Context, o cniexec.Cached) error {
	if string(o.Config) == hangingConf {
		return h.hang(ctx)
	}
	h.orphans = h.orphans[:len(h.orphans)-1] // the healthy one is the last
	return nil
}

// TestHangingPluginDelaysOnlyItsSweep checks that pods and cached attachments of a plugin that hangs do
// not delay the sweep of others.
func TestHangingPluginDelaysOnlyItsSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t)
		k := kernelOf(d)
		h := &hangingPlugin{Kernel: k}
		d.operations.Plugins = h
		for i := range 10 {
			conflist := hangingConf
			if i == 9 {
				conflist = `{"plugins":[{"type":"macvlan"}]}`
			}
			s := drivertest.SandboxNo(i)
			s.Pod.UID, s.Pod.Name = s.ID, s.ID
			one := attachment.Prepared{Claim: attachment.ClaimRef{UID: s.ID}, Pod: s.Pod, Attachment: attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(conflist)}}
			if err := d.store.Put([]attachment.Prepared{one}); err != nil {
				t.Fatal(err)
			}
			if err := attachOnce(t, d, s); err != nil {
				t.Fatal(err)
			}
			k.End(s)
			h.orphans = append(h.orphans, cniexec.Cached{CacheEntry: cniexec.CacheEntry{ContainerID: fmt.Sprint("orphan-", i), Config: json.RawMessage(conflist)}})
		}
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		d.sweeper.sweep(ctx, true)
		if took := time.Since(began); took > 2*sweepWait {
			t.Errorf("the sweep took %s", took)
		}
		if r := d.store.ForPod("sandbox-9")[0]; r.NeedsDEL() {
			t.Error("the pod with the healthy plugin was not swept")
		}
		if left := *d.sweeper.leftovers.Load(); left != (leftovers{sandboxes: 9, cached: 9}) {
			t.Errorf("left: %+v", left)
		}

		// A stop waits for the calls that run, and begins no other.
		stop()
		synctest.Wait()
		began = time.Now()
		d.operations.Wait()
		if took := time.Since(began); took > d.cfg.DelTimeout {
			t.Errorf("after the stop, other DELs ran: %s", took)
		}
		d.store.WaitSynced()
		drivertest.Same(t, "hanging calls at a time, of the pods' namespace and of orphans without one", 2*operations.Workers, h.most)
	})
}

// withConf gives the node configurations of the default network, each with a plugin.
func withConf(t *testing.T, c *Config, plugins ...string) {
	t.Helper()
	c.CNIConfDir = "/etc/cni/net.d"
	dir := filepath.Join(c.HostRoot, c.CNIConfDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range plugins {
		conf := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":%[1]q}`, plugin)
		if err := os.WriteFile(filepath.Join(dir, plugin+".conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoGarbageCollectionBesideMultus checks that no plugin is told to release anything while the
// runtime may call Multus, whose ADD may run.
func TestNoGarbageCollectionBesideMultus(t *testing.T) {
	for name, plugins := range map[string][]string{
		"Multus":           {"multus"},
		"no configuration": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d, k := attachedDriverWith(t, setup{cfg: func(c *Config) {
				withConf(t, c, plugins...)
			}})
			d.sweeper.collectGarbage(t.Context())
			drivertest.Same(t, "plugins", nil, k.Calls)
		})
	}
}

// TestPluginsGoByTheConfiguredMultusDir checks that the driver's plugins know what Multus has attached by
// --multus-cni-dir.
func TestPluginsGoByTheConfiguredMultusDir(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(bootIDFile, "boot")
	write("data/cni-multus/results/blue-web-net1", `{"kind":"cniCacheV1","containerId":"web","config":"e30=","ifName":"net1","networkName":"blue","result":{}}`)
	cfg := Config{HostRoot: root, StateDir: t.TempDir(), MultusDir: "/data/cni-multus"}
	env, err := openEnvironment(t.Context(), cfg, Clients{Kube: fake.NewClientset()})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := env.plugins.Foreign("web")
	if err != nil || len(foreign) != 1 || foreign[0].Interface != "net1" {
		t.Errorf("%+v, %v", foreign, err)
	}
	err = env.plugins.GC(t.Context(), json.RawMessage(`{"cniVersion":"1.1.0","name":"blue","plugins":[{"type":"p"}]}`), nil)
	if !errors.Is(err, cniexec.ErrForeignAttachments) {
		t.Errorf("GC of Multus' network: %v", err)
	}
}

// TestPrepareNamesThePendingDELOfADevice checks that a claim for a device whose DEL is pending has it
// retried at once, and is refused with the DEL's cause while it fails.
func TestPrepareNamesThePendingDELOfADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriverWith(t, setup{}, nad("blue", blueConf))
		prepare(t, d, claim("a", "blue"))
		held := d.store.All()[0].Prepared
		held.Hardware = &attachment.Hardware{ID: "0000:3b:02.0"}
		if err := errors.Join(d.store.DeleteClaim("a-uid", drivertest.Web.UID), d.store.Put([]attachment.Prepared{held}), attachOnce(t, d, drivertest.SandboxNo(1))); err != nil {
			t.Fatal(err)
		}
		k := kernelOf(d)
		key := d.store.All()[0].Key()
		share := d.store.All()[0].ShareID
		k.End(drivertest.SandboxNo(1))
		k.Fail("DEL net1", drivertest.Final("busy"))
		if err := errors.Join(d.store.DeferDEL(key, errors.New("the card does not answer")), d.store.DeleteClaim("a-uid", drivertest.Web.UID)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = d.attacher.PendingDELs.Run(ctx); close(ended) }()
		after(time.Hour) // the next try by itself is minutes away
		next := claim("b", "blue")
		next.Status.ReservedFor[0].Name, next.Status.ReservedFor[0].UID = "next", "next-uid"
		next.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(share))
		before := k.CallCount()
		results, err := d.plugin.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{next})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, results["b-uid"].Err, reason.DeviceInUse, "network default/blue ", "pod default/web ", "the card does not answer")
		if k.CallCount() == before {
			t.Error("the DEL was not retried")
		}
		k.Fail("DEL net1", nil)
		after(shortRetry)
		began := time.Now()
		if err := prepare(t, d, next)["b-uid"].Err; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the claim waited %s for a DEL that succeeds", took)
		}
		drivertest.Same(t, "pending DELs", []checkpoint.PendingDEL(nil), d.store.PendingDELs())
		stop()
		<-ended
		d.operations.Wait()
		d.store.WaitSynced()
	})
}

// shortRetry is longer than the pause between two tries of a pending DEL for which a claim waits.
const shortRetry = 10 * time.Second
