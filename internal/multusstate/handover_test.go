package multusstate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestHandOver hands over a sandbox that nadra has attached, and reads it as one of Multus'.
func TestHandOver(t *testing.T) {
	m := newMultus(t)
	if err := os.MkdirAll(m.Multus, 0o700); err != nil {
		t.Fatal(err)
	}
	runtimes := filepath.Join(m.Runtime, "cbr0-"+id("a")+"-eth0")
	want := Sandbox{
		ID: id("a"), NetNS: "/run/netns/x", Pod: attachment.PodRef{Namespace: "shop", Name: "web", UID: "web-uid"},
		Attachments: []Attachment{
			{attachment.Attachment{
				Network: attachment.NetworkRef{Namespace: "shop", Name: "chain"}, Interface: "second", CNIName: "chain", Conflist: json.RawMessage(chain),
				DefaultRoute: &[]string{"10.0.0.1"}, ResourceName: "example.com/vf",
				CapabilityArgs: map[string]json.RawMessage{
					"ips": json.RawMessage(`["10.0.0.5/24"]`), "mac": json.RawMessage(`"02:00:00:00:00:01"`), "deviceID": json.RawMessage(`"0000:00:01.0"`),
				},
				CNIArgs: [][2]string{{"MAC", "02:00:00:00:00:01"}},
			}, []byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}`)},
		},
	}
	hand := func(want bool, s Sandbox) {
		t.Helper()
		if written, err := m.HandOver(s); written != want || err != nil {
			t.Fatalf("written: %t, want %t; error %v", written, want, err)
		}
	}
	hand(false, want) // the runtime has no entry of eth0
	m.write(runtimes, `{"kind":"cniCacheV1","containerId":"`+id("a")+`","ifName":"eth0","networkName":"cbr0","config":"e30="}`)
	for range 2 {
		hand(true, want)
		taken, problems, err := m.Taken()
		if err != nil || len(problems) > 0 || len(taken) != 1 || !taken[0].Complete() {
			t.Fatalf("%+v, problems %+v, error %v", taken, problems, err)
		}
		got := taken[0]
		got.Written, got.eth0 = want.Written, nil
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Sandbox{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	delegates, err := readScratch(filepath.Join(m.taken(), id("a")))
	if err != nil || len(delegates) != 2 || string(delegates[0].Bytes) != "{}" || delegates[0].Name != "cbr0" {
		t.Fatalf("%+v, %v", delegates, err)
	}
	if d := delegates[1]; d.MacRequest != "02:00:00:00:00:01" || len(d.IPRequest) != 1 || d.DeviceID != "0000:00:01.0" || string(d.ConfList) != chain {
		t.Errorf("%+v", d)
	}
	if returned, err := m.Return(id("a")); !returned || err != nil {
		t.Fatalf("%t, %v", returned, err)
	}
	if _, err := os.Stat(runtimes); !os.IsNotExist(err) {
		t.Errorf("the runtime's entry of eth0 is not Multus': %v", err)
	}
}

// TestNothingIsHandedOverWithoutMultus checks that a node without Multus gets no file of it.
func TestNothingIsHandedOverWithoutMultus(t *testing.T) {
	m := newMultus(t)
	m.write(filepath.Join(m.Runtime, "cbr0-"+id("a")+"-eth0"), "{}")
	if written, err := m.HandOver(Sandbox{ID: id("a")}); written || err != nil {
		t.Fatalf("%t, %v", written, err)
	}
	if _, err := os.Stat(m.Multus); !os.IsNotExist(err) {
		t.Errorf("Multus' directory: %v", err)
	}
}
