package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// bench is a publisher with a cache of NADs and a host that tests change.
type bench struct {
	*Publisher
	nads      cache.Indexer
	hostLinks map[string]offer.Link
	owned     bool
	others    map[string]bool
	calls     [][]string // the networks of each publication, once for each device that lists them
	fail      error
	freed     int
	health    []string // the reported changes of health
}

// newBench returns a bench on a node of nadra's, whose plugins answer STATUS as status does.
func newBench(t testing.TB, changes ...func(*Options)) *bench {
	t.Helper()
	b := &bench{nads: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), hostLinks: map[string]offer.Link{}, owned: true}
	o := Options{
		Pool:       "node-1/networks",
		NADs:       nadlisters.NewNetworkAttachmentDefinitionLister(b.nads),
		Links:      func() (map[string]offer.Link, error) { return b.hostLinks, nil },
		Missing:    func([]string) []string { return nil },
		BinDirs:    []string{"/opt/cni/bin"},
		Conf:       NewConfDir(t.TempDir(), "/net.d"),
		Owned:      func() bool { return b.owned },
		OtherPools: func() map[string]bool { return b.others },
		Status:     func(context.Context, string, json.RawMessage) error { return nil },
		Pods:       func() int64 { return usualPods },
		Copies:     2,
		Background: background.NewGroup(t.Context()),
		HealthChanged: func(_ context.Context, changes []HealthChange) {
			for _, c := range changes {
				b.health = append(b.health, fmt.Sprintf("%s %s: %s", c.Network, c.UID, reason.Of(c.Why)))
			}
		},
		Refreshed:  func(*View) {},
		Outcome:    func(error) {},
		Draw:       func(over time.Duration) time.Duration { return over }, // the last node
		FreeMemory: func() { b.freed++ },
	}
	for _, change := range changes {
		change(&o)
	}
	b.Publisher = New(o)
	return b
}

// take takes a publication.
func (b *bench) take(_ context.Context, pools slicewriter.PoolMaker) error {
	if b.fail != nil {
		return b.fail
	}
	of := map[attachment.NetworkID]string{}
	for _, o := range b.nads.List() {
		n := o.(*nadv1.NetworkAttachmentDefinition)
		of[attachment.NetworkIDOf(attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name})] = n.Namespace + "-" + n.Name
	}
	names := []string{}
	for _, s := range pools()["node-1/networks"].Slices {
		for _, d := range s.Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				names = append(names, of[id])
			}
		}
	}
	slices.Sort(names)
	b.calls = append(b.calls, names)
	return nil
}

func (b *bench) sync(t *testing.T) {
	t.Helper()
	if err := b.Publisher.sync(t.Context(), b.take); err != nil {
		t.Fatal(err)
	}
}

// TestPublishReturnsMemory checks that the memory of a publication is returned once, when
// nothing is published any more.
func TestPublishReturnsMemory(t *testing.T) {
	b := newBench(t)
	tick := func(freed int) {
		t.Helper()
		b.countDownToFree()
		b.sync(t)
		if b.freed != freed {
			t.Errorf("freed %d times, want %d", b.freed, freed)
		}
	}
	b.sync(t)
	tick(0)
	b.hostLinks["lan0"] = offer.Link{}
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	tick(1) // of the first publication; the second is only coming
	tick(1)
	tick(2)
	tick(2)
}

func TestPublishFollowsChanges(t *testing.T) {
	b := newBench(t)
	b.sync(t)
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	_ = b.nads.Add(drivertest.NAD("blue", drivertest.BlueConf)) // its master is missing
	b.sync(t)
	b.sync(t) // nothing changed
	b.hostLinks["lan0"] = offer.Link{}
	b.sync(t)
	_ = b.nads.Delete(drivertest.NAD("red", drivertest.RedConf))
	b.sync(t)
	want := [][]string{{}, {"default-red"}, {"default-blue", "default-red"}, {"default-blue"}}
	if diff := cmp.Diff(want, b.calls); diff != "" {
		t.Errorf("publications (-want +got):\n%s", diff)
	}
	if _, err := b.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "blue"}); err != nil {
		t.Errorf("Prepare does not see what is published: %v", err)
	}
}

func TestPublishIsRetried(t *testing.T) {
	b := newBench(t)
	b.fail = errors.New("no API server")
	if err := b.Publisher.sync(t.Context(), b.take); err == nil || !strings.Contains(err.Error(), "node-1/networks") {
		t.Errorf("error %v", err)
	}
	b.fail = nil
	b.sync(t)
	if len(b.calls) != 1 {
		t.Errorf("publications %v", b.calls)
	}
}

func TestFeatures(t *testing.T) {
	b := newBench(t)
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	b.sync(t)
	b.UseFeatures(slicewriter.Features{Taints: true})
	select {
	case <-b.changed.C():
	default:
		t.Error("no refresh was requested")
	}
	b.sync(t)
	if last := b.calls[len(b.calls)-1]; !slices.Equal(last, []string{"default-red", "default-red"}) {
		t.Errorf("devices of %v, want 2 copies", last)
	}
	b.UseFeatures(slicewriter.AllFeatures)
	b.sync(t)
	if last := b.calls[len(b.calls)-1]; !slices.Equal(last, []string{"default-red"}) {
		t.Errorf("devices of %v after an upgrade of the cluster, want one", last)
	}
}

// TestPCIAttributesOfAMaster reads from a machine's sysfs what aligns a macvlan with a GPU.
func TestPCIAttributesOfAMaster(t *testing.T) {
	sys := t.TempDir()
	const function = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
	for _, d := range []string{function, "bus/pci/devices", "class/net", "devices/virtual/net/br0"} {
		if err := os.MkdirAll(filepath.Join(sys, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"bus/pci/devices/0000:3b:00.0": "../../../" + function,
		function + "/subsystem":        "../../../../bus/pci",
		function + "/net/ens1/device":  "../../../0000:3b:00.0",
		"class/net/ens1":               "../../" + function + "/net/ens1",
		"class/net/br0":                "../../devices/virtual/net/br0",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(sys, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(sys, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(sys, function, "numa_node"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := NewHostLinks(sys)
	got := map[string]any{}
	for name, a := range h.pciAttributes("ens1") {
		switch {
		case a.StringValue != nil:
			got[string(name)] = *a.StringValue
		case a.IntValue != nil:
			got[string(name)] = *a.IntValue
		}
	}
	want := map[string]any{
		"resource.kubernetes.io/pciBusID": "0000:3b:00.0",
		"resource.kubernetes.io/pcieRoot": "pci0000:3a",
		"resource.kubernetes.io/numaNode": int64(1),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if a := h.pciAttributes("br0"); len(a) > 0 {
		t.Errorf("a virtual interface has %v", a)
	}
}

// TestPublishFollowsTheOwner checks that a node publishes everything or nothing, and that
// Prepare sees the networks all the time. Plugins are asked by STATUS only on nadra's nodes.
func TestPublishFollowsTheOwner(t *testing.T) {
	asked := make(chan struct{}) // a plugin answers when the test has received
	b := newBench(t, func(o *Options) {
		o.Status = func(ctx context.Context, _ string, _ json.RawMessage) error {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	b.owned = false
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	_ = b.nads.Add(drivertest.NAD("new", `{"cniVersion":"1.1.0","type":"bridge"}`))
	b.sync(t)
	select {
	case <-asked:
		t.Error("a plugin is asked on a node that is not nadra's")
	default:
	}
	drivertest.Same(t, "publications", [][]string{{}}, b.calls)
	if _, err := b.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "red"}); err != nil {
		t.Errorf("an allocated claim cannot be prepared: %v", err)
	}
	b.owned = true
	b.sync(t)
	<-asked
	for len(b.calls) < 3 { // the answer is recorded some time later
		b.sync(t)
	}
	b.owned = false
	b.sync(t)
	b.sync(t)
	if last := b.calls[len(b.calls)-1]; len(last) > 0 || len(b.calls) != 4 {
		t.Errorf("publications %v", b.calls)
	}
	drivertest.Same(t, "with both", []string{"default-new", "default-red"}, b.calls[2])
}
