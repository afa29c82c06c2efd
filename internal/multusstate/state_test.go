package multusstate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	blue   = `{"cniVersion":"0.3.1","name":"blue","type":"macvlan","master":"lan0"}`
	chain  = `{"cniVersion":"1.0.0","name":"chain","plugins":[{"type":"bridge"},{"type":"tuning"}]}`
	flat   = `{"cniVersion":"0.3.1","name":"cbr0","type":"flannel"}`
	result = `{"cniVersion":"0.3.1","interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}`
)

// id returns the ID of a sandbox.
func id(digit string) string { return strings.Repeat(digit, 64) }

// multus writes what Multus has on a node.
type multus struct {
	*testing.T
	Dir
}

func newMultus(t *testing.T) multus {
	return multus{t, Dir{Multus: filepath.Join(t.TempDir(), "multus"), Runtime: filepath.Join(t.TempDir(), "results")}}
}

func (m multus) write(path, content string) {
	m.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		m.Fatal(err)
	}
}

// scratch writes Multus' file of a sandbox.
func (m multus) scratch(id string, delegates ...delegate) {
	m.Helper()
	text, err := json.Marshal(delegates)
	if err != nil {
		m.Fatal(err)
	}
	m.write(filepath.Join(m.Multus, id), string(text))
}

// entry writes libcni's entry of an attachment.
func (m multus) entry(network, id, ifName, config string) {
	m.Helper()
	text, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": id, "config": []byte(config), "ifName": ifName, "networkName": network, "netns": "/run/netns/x",
		"cniArgs": [][2]string{
			{"IgnoreUnknown", "true"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", "web"}, {"K8S_POD_UID", "web-uid"}, {"K8S_POD_NAME", "web"}, {"MAC", "02:00:00:00:00:01"},
		},
		"capabilityArgs": map[string]any{"mac": "02:00:00:00:00:01"}, "result": json.RawMessage(result),
	})
	if err != nil {
		m.Fatal(err)
	}
	m.write(filepath.Join(m.results(), network+"-"+id+"-"+ifName), string(text))
}

// web writes a sandbox with the default network and two others.
func (m multus) web(id string) {
	m.Helper()
	m.scratch(id, delegate{Name: "cbr0", Bytes: []byte(flat)}, delegate{Name: "shop/blue", Bytes: []byte(blue), ResourceName: "example.com/vf", DeviceID: "0000:00:01.0"},
		delegate{Name: "shop/chain", IfnameRequest: "second", Bytes: []byte(chain), GatewayRequest: &[]string{"10.0.0.1"}})
	m.entry("cbr0", id, "eth0", flat)
	m.entry("blue", id, "net1", blue)
	m.entry("chain", id, "second", chain)
}

// read returns the only sandbox.
func (m multus) read() Sandbox {
	m.Helper()
	all, problems, err := m.Sandboxes()
	if err != nil || len(problems) > 0 || len(all) != 1 {
		m.Fatalf("%+v, problems %+v, error %v", all, problems, err)
	}
	return all[0]
}

func TestSandboxHasWhatItsDELNeeds(t *testing.T) {
	m := newMultus(t)
	m.web(id("a"))
	m.write(filepath.Join(m.Multus, "lock"), "")
	s := m.read()
	if want := (attachment.PodRef{Namespace: "shop", Name: "web", UID: "web-uid"}); s.ID != id("a") || s.Pod != want || s.NetNS != "/run/netns/x" || !s.Complete() {
		t.Errorf("%+v", s)
	}
	mac := map[string]json.RawMessage{"mac": json.RawMessage(`"02:00:00:00:00:01"`)}
	want := []Attachment{
		{attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "shop", Name: "blue"}, Interface: "net1", CNIName: "blue",
			Conflist:       json.RawMessage(`{"cniVersion":"0.3.1","name":"blue","plugins":[` + blue + `]}`),
			CapabilityArgs: mac, CNIArgs: [][2]string{{"MAC", "02:00:00:00:00:01"}}, ResourceName: "example.com/vf",
		}, []byte(result)},
		{attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "shop", Name: "chain"}, Interface: "second", CNIName: "chain", Conflist: json.RawMessage(chain),
			CapabilityArgs: mac, CNIArgs: [][2]string{{"MAC", "02:00:00:00:00:01"}}, DefaultRoute: &[]string{"10.0.0.1"},
		}, []byte(result)},
	}
	if diff := cmp.Diff(want, s.Attachments); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
}

// TestIncompleteSandboxes checks what is known of sandboxes that Multus has not attached, or whose
// files are damaged.
func TestIncompleteSandboxes(t *testing.T) {
	t.Run("an ADD has not succeeded", func(t *testing.T) {
		m := newMultus(t)
		m.scratch(id("a"), delegate{Name: "cbr0", Bytes: []byte(flat)}, delegate{Name: "shop/blue", Bytes: []byte(blue), IPRequest: []string{"10.0.0.5/24"}, DeviceID: "0000:00:01.0"})
		m.entry("cbr0", id("a"), "eth0", flat)
		s := m.read()
		if s.Complete() || len(s.Attachments) != 1 || s.Attachments[0].CNIName != "blue" {
			t.Fatalf("%+v", s)
		}
		if diff := cmp.Diff(map[string]json.RawMessage{"ips": json.RawMessage(`["10.0.0.5/24"]`), "deviceID": json.RawMessage(`"0000:00:01.0"`)}, s.Attachments[0].CapabilityArgs); diff != "" {
			t.Errorf("its DEL gets (-want +got):\n%s", diff)
		}
	})
	t.Run("the first ADD has not succeeded", func(t *testing.T) {
		m := newMultus(t)
		m.scratch(id("a"), delegate{Name: "cbr0", Bytes: []byte(flat)})
		if s := m.read(); s.Complete() || s.Pod.UID != "" || s.NetNS != "" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("Multus' file is damaged", func(t *testing.T) {
		m := newMultus(t)
		m.web(id("a"))
		m.write(filepath.Join(m.Multus, id("a")), `[{"Name":"cb`)
		s := m.read()
		var got []string
		for _, a := range s.Attachments {
			got = append(got, a.Network.String()+" "+a.Interface+" "+a.CNIName)
		}
		if !s.Complete() || !slices.Equal(got, []string{"/blue net1 blue", "/chain second chain"}) {
			t.Errorf("%+v: %q", s, got)
		}
	})
	t.Run("a network was added while the pod ran", func(t *testing.T) {
		m := newMultus(t)
		m.web(id("a"))
		m.entry("late", id("a"), "late0", `{"cniVersion":"0.3.1","name":"late","type":"macvlan"}`)
		s := m.read()
		if len(s.Attachments) != 3 || s.Attachments[2].Interface != "late0" || s.Attachments[2].CNIName != "late" || !s.Complete() {
			t.Errorf("%+v", s)
		}
	})
	t.Run("nothing can be read", func(t *testing.T) {
		m := newMultus(t)
		m.write(filepath.Join(m.Multus, id("a")), ``)
		m.write(filepath.Join(m.results(), "blue-"+id("a")+"-net1"), `{"ki`)
		m.web(id("b"))
		all, problems, err := m.Sandboxes()
		if err != nil || len(all) != 1 || all[0].ID != id("b") || len(problems) != 1 || problems[0].Sandbox != id("a") || !strings.Contains(problems[0].Error, "blue-"+id("a")) {
			t.Errorf("%+v, problems %+v, error %v", all, problems, err)
		}
	})
	t.Run("a configuration that libcni refuses", func(t *testing.T) {
		m := newMultus(t)
		m.scratch(id("a"), delegate{Name: "cbr0", Bytes: []byte(flat)}, delegate{Name: "shop/blue", Bytes: []byte(`{"cniVersion":"9.9.9","name":"blue","type":"macvlan"}`)})
		m.entry("cbr0", id("a"), "eth0", flat)
		_, problems, err := m.Sandboxes()
		if err != nil || len(problems) != 1 || problems[0].Pod != "shop/web" || !strings.Contains(problems[0].Error, "9.9.9") {
			t.Errorf("problems %+v, error %v", problems, err)
		}
	})
	t.Run("no Multus", func(t *testing.T) {
		all, problems, err := newMultus(t).Sandboxes()
		if len(all)+len(problems) > 0 || err != nil {
			t.Errorf("%+v, %+v, %v", all, problems, err)
		}
	})
}

// files lists the files below the directories.
func (m multus) files() []string {
	m.Helper()
	var out []string
	for name, dir := range map[string]string{"multus": m.Multus, "runtime": m.Runtime} {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				out = append(out, name+strings.ReplaceAll(strings.TrimPrefix(path, dir), id("a"), "A"))
			}
			return nil
		})
		if err != nil {
			m.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}

// TestSandboxChangesHands follows a sandbox to nadra, back to Multus, to nadra again, and to its end.
func TestSandboxChangesHands(t *testing.T) {
	m := newMultus(t)
	m.web(id("a"))
	m.write(filepath.Join(m.Runtime, "multus-cni-network-"+id("a")+"-eth0"), "{}")
	ofMultus := []string{
		"multus/A", "multus/results/blue-A-net1", "multus/results/cbr0-A-eth0", "multus/results/chain-A-second", "runtime/multus-cni-network-A-eth0",
	}
	ofNadra := []string{
		"multus/nadra/A", "multus/results/blue-A-net1", "multus/results/cbr0-A-eth0", "multus/results/chain-A-second",
		"runtime/cbr0-A-eth0", "runtime/multus-cni-network-A-eth0",
	}
	has := func(holder Holder, files []string) {
		t.Helper()
		if diff := cmp.Diff(files, m.files()); diff != "" || m.Holder(id("a")) != holder {
			t.Fatalf("held by %d, want %d; files (-want +got):\n%s", m.Holder(id("a")), holder, diff)
		}
	}
	does := func(want bool, do func() (bool, error)) {
		t.Helper()
		for _, expected := range []bool{want, false} { // the second time there is nothing to do
			if done, err := do(); done != expected || err != nil {
				t.Fatalf("done: %t, want %t; error %v", done, expected, err)
			}
		}
	}
	s := m.read()
	give := func() {
		t.Helper()
		for range 2 {
			if err := m.GiveEth0(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	give()
	does(true, func() (bool, error) { return m.Take(s.ID) })
	has(Nadra, ofNadra)
	if all, _, err := m.Taken(); err != nil || len(all) != 1 || all[0].Pod.Name != "web" || len(all[0].Attachments) != 2 {
		t.Errorf("taken: %+v, error %v", all, err)
	}
	does(true, func() (bool, error) { return m.Return(id("a")) })
	has(Multus, ofMultus)
	s = m.read()
	give()
	does(true, func() (bool, error) { return m.Take(s.ID) })
	has(Nadra, ofNadra)
	for range 2 {
		if err := m.Forget(id("a")); err != nil {
			t.Fatal(err)
		}
		has(Nobody, nil)
	}
}

// TestReturnKeepsTheRuntimesEntry checks that an entry of eth0 that the runtime made is not removed.
func TestReturnKeepsTheRuntimesEntry(t *testing.T) {
	m := newMultus(t)
	m.web(id("a"))
	own := filepath.Join(m.Runtime, "cbr0-"+id("a")+"-eth0")
	m.write(own, "the runtime's")
	if err := m.GiveEth0(m.read()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Take(id("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Return(id("a")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != "the runtime's" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(multus)
		links   Namespaces
		want    probe.MultusReport
		refused string
	}{
		"adoptable": {
			func(m multus) { m.web(id("a")) }, func(string) ([]string, error) { return []string{"lo", "eth0", "net1", "second"}, nil },
			probe.MultusReport{Sandboxes: 1, Networks: 2},
			"",
		},
		"without an interface": {
			func(m multus) { m.web(id("a")) }, func(string) ([]string, error) { return []string{"lo", "eth0", "net1"}, nil },
			probe.MultusReport{Sandboxes: 1, Networks: 2, Missing: []string{"shop/web second"}},
			"",
		},
		"gone": {func(m multus) { m.web(id("a")) }, func(string) ([]string, error) { return nil, podns.ErrGone }, probe.MultusReport{Gone: 1}, ""},
		"attaching": {
			func(m multus) {
				m.web(id("a"))
				_ = os.Remove(filepath.Join(m.results(), "blue-"+id("a")+"-net1"))
			}, func(string) ([]string, error) { return []string{"lo", "eth0"}, nil }, probe.MultusReport{}, "pod shop/web: ",
		},
		"unreadable": {
			func(m multus) { m.web(id("a")) }, func(string) ([]string, error) { return nil, errors.New("permission denied") }, probe.MultusReport{}, "pod shop/web: permission denied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMultus(t)
			test.prepare(m)
			got, err := m.Check(test.links)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if test.refused == "" && err != nil || test.refused != "" && (reason.Of(err) != reason.NotAdopted || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("error %v, want one with %q", err, test.refused)
			}
		})
	}
}

// TestAwait checks that the waits end when the driver has taken and returned the sandboxes, and name
// what is left if it has not.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMultus(t)
		m.web(id("a"))
		m.scratch(id("b"), delegate{Name: "cbr0", Bytes: []byte(flat)}) // its first ADD has failed
		lives := func(string) ([]string, error) { return nil, nil }
		limited := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			return ctx
		}
		if err := m.AwaitAdopted(limited()); reason.Of(err) != reason.NotAdopted || !strings.Contains(err.Error(), "pod shop/web") {
			t.Errorf("before it is adopted: %v", err)
		}
		time.AfterFunc(10*time.Second, func() { _, _ = m.Take(id("a")) })
		began := time.Now()
		if err := m.AwaitAdopted(limited()); err != nil || time.Since(began) < 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := m.AwaitReturned(limited(), lives); reason.Of(err) != reason.NotReturned || !strings.Contains(err.Error(), "pod shop/web") {
			t.Errorf("before it is returned: %v", err)
		}
		if err := m.AwaitReturned(limited(), func(string) ([]string, error) { return nil, podns.ErrGone }); err != nil {
			t.Errorf("a sandbox that is gone: %v", err)
		}
		time.AfterFunc(10*time.Second, func() { _, _ = m.Return(id("a")) })
		if err := m.AwaitReturned(limited(), lives); err != nil {
			t.Error(err)
		}
	})
}
