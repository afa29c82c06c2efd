package publish

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func macvlanOn(master string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":%q}`, master)
}

// card returns an interface with a PCI function.
func card(name, address string) offer.Link {
	return offer.Link{Name: name, PCI: offer.PCIAttributes{"resource.kubernetes.io/pciBusID": offer.String(address)}}
}

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

// equalIDs returns two NADs with the same ID, of which the first is earlier.
func equalIDs(first, second string) (a, b *nadv1.NetworkAttachmentDefinition) {
	a, b = drivertest.NAD("net552030", first), drivertest.NAD("n6iz", second)
	b.Namespace = "team-evil"
	a.CreationTimestamp, b.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	return a, b
}

const tinyConf = `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`

// TestEqualIDs checks that no node lists two networks by the same ID, whether the node can attach the earlier
// one or not, and that the later gets the ID when the earlier is deleted.
func TestEqualIDs(t *testing.T) {
	b := newBench(t)
	earlier, later := equalIDs(tinyConf, drivertest.RedConf)
	ref := attachment.NetworkRef{Namespace: "team-evil", Name: "n6iz"}
	short, long := attachment.NetworkIDOf(ref), attachment.LongNetworkIDOf(ref)
	own := attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: "net552030"})
	check := func(what string, want map[attachment.NetworkID]string) {
		t.Helper()
		now, err := b.refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[attachment.NetworkID]string{}
		for _, d := range now.Slices()[0] {
			for id := range attachment.NetworkIDs(d.Attributes) {
				got[id] += d.Name
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	_ = b.nads.Add(later)
	check("one network", map[attachment.NetworkID]string{short: "node-0-0"})
	_ = b.nads.Add(earlier)
	check("an earlier one", map[attachment.NetworkID]string{short: own, long: "node-0-0"})
	unusable := earlier.DeepCopy()
	unusable.Spec.Config = macvlanOn("nowhere")
	_ = b.nads.Update(unusable)
	check("an earlier one that is not usable here", map[attachment.NetworkID]string{long: "node-0-0"})
	_ = b.nads.Delete(unusable)
	check("the earlier one is gone", map[attachment.NetworkID]string{short: "node-0-0"})
}

// TestSuits checks which networks a claim may attach with its device.
func TestSuits(t *testing.T) {
	b := newBench(t)
	b.hostLinks["ens1"] = card("ens1", "0000:01:00.0")
	for name, config := range map[string]string{
		"red": drivertest.RedConf, "card": macvlanOn("ens1"), "lost": macvlanOn("nowhere"), "limited": tinyConf,
	} {
		nad := drivertest.NAD(name, config)
		nad.Annotations = map[string]string{attachment.AlignAnnotation: "true"}
		_ = b.nads.Add(nad)
	}
	victim, evil := equalIDs(macvlanOn("ens1"), tinyConf)
	victim.Annotations = map[string]string{attachment.AlignAnnotation: "true"}
	_, _ = b.nads.Add(victim), b.nads.Add(evil)
	b.sync(t)
	limited := attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: "limited"})
	ofEvil := attachment.DeviceName(attachment.NetworkRef{Namespace: "team-evil", Name: "n6iz"})
	devices := []string{"node-0-0", "node-3-1", "ens1-0-0", limited, ofEvil}
	for name, tt := range map[string]struct{ chosen, refusedOfClass []string }{
		"red":       {[]string{"node-0-0", "node-3-1"}, nil},
		"lost":      {[]string{"node-0-0", "node-3-1"}, nil},
		"card":      {[]string{"ens1-0-0"}, nil},
		"limited":   {[]string{limited}, nil},
		"unknown":   {devices, nil},
		"net552030": {[]string{"ens1-0-0"}, []string{ofEvil}},
	} {
		for _, device := range devices {
			ref := attachment.NetworkRef{Namespace: "default", Name: name}
			err := b.View.Suits(device, ref, false)
			if got, want := reason.Of(err) != reason.ClaimInvalid, slices.Contains(tt.chosen, device); got != want {
				t.Errorf("network %s, chosen, with device %s: %v", name, device, err)
			}
			err = b.View.Suits(device, ref, true)
			if got, want := reason.Of(err) == reason.DeviceMismatch, slices.Contains(tt.refusedOfClass, device); got != want {
				t.Errorf("network %s, of the class, with device %s: %v", name, device, err)
			}
		}
	}
	drivertest.WantReason(t, b.View.Suits("node-0-0", attachment.NetworkRef{}, false), reason.ClaimInvalid)
}
