package driver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// bench is a publisher with a cache of NADs and a host that tests change.
type bench struct {
	*publisher
	nads      cache.Indexer
	hostLinks map[string]link
	calls     [][]string // the device names of each publication
	fail      error
	freed     int
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{nads: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), hostLinks: map[string]link{}}
	b.publisher = &publisher{
		nads:     nadlisters.NewNetworkAttachmentDefinitionLister(b.nads),
		links:    func() (map[string]link, error) { return b.hostLinks, nil },
		missing:  func([]string) []string { return nil },
		networks: &networks{},
		offers:   (&owner{}).offers,
		health:   newHealth(&background{base: t.Context()}, func(context.Context, json.RawMessage) error { return nil }),
		publish:  b.take,
		free:     func() { b.freed++ },
		pool:     "node-1/networks",
		options:  deviceOptions{attachments: 10, copies: 2},
		changed:  make(chan struct{}, 1),
		spread:   spread{draw: func(over time.Duration) time.Duration { return over }}, // the last node
	}
	return b
}

func (b *bench) take(_ context.Context, pools poolMaker) error {
	if b.fail != nil {
		return b.fail
	}
	names := []string{}
	for _, s := range pools()["node-1/networks"].Slices {
		for _, d := range s.Devices {
			names = append(names, d.Name[:strings.LastIndex(d.Name, "-")])
		}
	}
	b.calls = append(b.calls, names)
	return nil
}

func (b *bench) sync(t *testing.T) {
	t.Helper()
	if err := b.publisher.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What publishing leaves behind is freed once, when no more is published.
func TestPublishFreesItsGarbage(t *testing.T) {
	b := newBench(t)
	tick := func(freed int) {
		t.Helper()
		b.publisher.tidy()
		b.sync(t)
		if b.freed != freed {
			t.Errorf("freed %d times, want %d", b.freed, freed)
		}
	}
	b.sync(t)
	tick(0)
	b.hostLinks["lan0"] = link{}
	_ = b.nads.Add(nad("red", redConf))
	tick(1) // of the first publication; the second is only coming
	tick(1)
	tick(2)
	tick(2)
}

func TestPublishFollowsChanges(t *testing.T) {
	b := newBench(t)
	b.sync(t) // an empty slice says that the driver is there
	_ = b.nads.Add(nad("red", redConf))
	_ = b.nads.Add(nad("blue", blueConf)) // its master is missing
	b.sync(t)
	b.sync(t) // nothing changed
	b.hostLinks["lan0"] = link{}
	b.sync(t)
	_ = b.nads.Delete(nad("red", redConf))
	b.sync(t)
	want := [][]string{{}, {"default-red"}, {"default-blue", "default-red"}, {"default-blue"}}
	if diff := cmp.Diff(want, b.calls); diff != "" {
		t.Errorf("publications (-want +got):\n%s", diff)
	}
	if _, err := b.networks.usable(attachment.NetworkRef{Namespace: "default", Name: "blue"}); err != nil {
		t.Errorf("Prepare does not see what is published: %v", err)
	}
}

func TestPublishIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.fail = errors.New("no API server")
	if err := b.publisher.sync(t.Context()); err == nil || !strings.Contains(err.Error(), "node-1/networks") {
		t.Errorf("error %v", err)
	}
	b.fail = nil
	b.sync(t)
	if len(b.calls) != 1 {
		t.Errorf("publications %v", b.calls)
	}
}

func TestDroppedFeatureTurnsIntoCopies(t *testing.T) {
	b := newBench(t)
	_ = b.nads.Add(nad("red", redConf))
	b.sync(t)
	if b.dropped([]string{"DRADeviceTaints"}) {
		t.Error("publishing anew does not help against missing taints")
	}
	if !b.dropped([]string{featureConsumableCapacity}) {
		t.Error("consumable capacity was dropped, and nothing is done")
	}
	select {
	case <-b.changed:
	default:
		t.Error("no new look was asked for")
	}
	b.sync(t)
	if last := b.calls[len(b.calls)-1]; len(last) != 2 || !slices.ContainsFunc(last, func(n string) bool { return strings.HasPrefix(n, "default-red-") }) {
		t.Errorf("devices %v, want 2 copies", last)
	}
}

// What aligns a macvlan with a GPU, read from a machine's sysfs.
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
	h := hostLinks{sysRoot: sys}
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
