package cniexec

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// version11 is conflist for version 1.1.0 and a network.
func version11(network string, plugins ...string) attachment.Attachment {
	a := conflist(plugins...)
	text := strings.Replace(string(a.Conflist), "1.0.0", "1.1.0", 1)
	a.Conflist = json.RawMessage(strings.Replace(text, `"blue"`, `"`+network+`"`, 1))
	return a
}

// attached runs an ADD in a sandbox whose network namespace is a file of the
// world; without it, the namespace is gone.
func (w *world) attached(t *testing.T, id string, a attachment.Attachment) attachment.Sandbox {
	t.Helper()
	s := sandbox
	s.ID, s.NetNS = id, filepath.Join(w.dir, "netns-"+id)
	if err := os.WriteFile(s.NetNS, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(t.Context(), s, a, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// damage writes a file that cannot be read into a cache.
func damage(t *testing.T, dir, name string) {
	t.Helper()
	write(t, dir, name, `{"kind":"cniCacheV1","contain`)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An orphan is unknown to the caller and its namespace is gone. Its DEL gets everything
// that its ADD got.
func TestOrphansAreDeletedWithWhatAddHad(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", `if [ $CNI_COMMAND = ADD ]; then cat >/dev/null; echo '`+result+`'; else echo "$CNI_CONTAINERID $CNI_IFNAME netns=$CNI_NETNS $CNI_ARGS" >>$DIR/log; cat >$DIR/p.DEL; fi`)
	a := conflist("p")
	a.CNIArgs = [][2]string{{"IP", "10.1.0.5"}}
	a.CapabilityArgs = map[string]json.RawMessage{"ips": json.RawMessage(`["10.1.0.5/24"]`)}
	for _, id := range []string{"known", "running", "orphan"} {
		s := w.attached(t, id, a)
		if id == "running" {
			continue
		}
		if err := os.Remove(s.NetNS); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, w.results(), "blue-damaged-net1")

	orphans, err := w.Orphans(func(id, ifName string) bool { return id == "known" && ifName == "net1" })
	if err == nil || !strings.Contains(err.Error(), "blue-damaged-net1") {
		t.Errorf("error %v", err)
	}
	if len(orphans) != 1 || orphans[0].ContainerID != "orphan" || orphans[0].IfName != "net1" || orphans[0].Network != "blue" {
		t.Fatalf("orphans %+v", orphans)
	}
	if err := w.DelOrphan(t.Context(), orphans[0]); err != nil {
		t.Fatal(err)
	}
	want := []string{"orphan net1 netns= IgnoreUnknown=true;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=orphan;K8S_POD_UID=web-uid;IP=10.1.0.5"}
	if diff := cmp.Diff(want, w.log(t)); diff != "" {
		t.Errorf("DEL (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1.0.0", "10.1.0.5/24"}, w.prevResult(t, "p.DEL")); diff != "" {
		t.Errorf("prevResult (-want +got):\n%s", diff)
	}
	conf, err := os.ReadFile(filepath.Join(w.dir, "p.DEL"))
	if err != nil || !strings.Contains(string(conf), `"runtimeConfig":{"ips":["10.1.0.5/24"]}`) {
		t.Errorf("configuration %s (%v)", conf, err)
	}
	left, err := os.ReadDir(w.results())
	if err != nil || len(left) != 3 {
		t.Errorf("left in the cache: %v (%v)", left, err)
	}
}

func TestNoCacheHasNoOrphans(t *testing.T) {
	orphans, err := newWorld(t).Orphans(func(string, string) bool { return false })
	if len(orphans) > 0 || err != nil {
		t.Errorf("%v, %v", orphans, err)
	}
}

// gcPlugin logs what GC was given, and ADDs and DELs.
const gcPlugin = `echo "$CNI_COMMAND NAME" >>$DIR/log; cat >$DIR/NAME.$CNI_COMMAND; [ $CNI_COMMAND != ADD ] || echo '` + result + `'`

func (w *world) gcPlugins(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		w.plugin(t, n, strings.ReplaceAll(gcPlugin, "NAME", n))
	}
}

// Plugins get the attachments of this network that the caller knows or the cache has, and
// GC deletes none.
func TestGCNamesAllAttachments(t *testing.T) {
	w := newWorld(t)
	w.gcPlugins(t, "first", "second")
	a := version11("blue", "first", "second")
	w.attached(t, "cached", a)
	w.attached(t, "other", version11("blue-green", "first"))
	if err := os.Remove(filepath.Join(w.dir, "log")); err != nil {
		t.Fatal(err)
	}
	valid := []types.GCAttachment{{ContainerID: "known", IfName: "net1"}, {ContainerID: "cached", IfName: "net1"}}
	if err := w.GC(t.Context(), a.Conflist, valid); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GC first", "GC second"}, w.log(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	var conf struct {
		Name  string
		Valid []types.GCAttachment `json:"cni.dev/valid-attachments"`
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "second.GC"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		t.Fatal(err)
	}
	want := []types.GCAttachment{{ContainerID: "cached", IfName: "net1"}, {ContainerID: "known", IfName: "net1"}}
	if diff := cmp.Diff(want, conf.Valid); diff != "" || conf.Name != "blue" {
		t.Errorf("attachments of %s (-want +got):\n%s", conf.Name, diff)
	}
}

func TestGCOfNoAttachmentsSaysSo(t *testing.T) {
	w := newWorld(t)
	w.gcPlugins(t, "p")
	if err := w.GC(t.Context(), version11("blue", "p").Conflist, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "p.GC"))
	if err != nil || !strings.Contains(string(data), `"cni.dev/valid-attachments":[]`) {
		t.Errorf("configuration %s (%v)", data, err)
	}
}

func TestGCIsLeftOut(t *testing.T) {
	gc := version11("blue", "p").Conflist
	tests := []struct {
		name     string
		conflist json.RawMessage
		prepare  func(*testing.T, *world)
		want     string
		sentinel error
	}{
		{name: "before version 1.1.0", conflist: conflist("p").Conflist},
		{
			name: "disabled", conflist: json.RawMessage(strings.Replace(string(gc), `"plugins"`, `"disableGC":true,"plugins"`, 1)),
			prepare: func(t *testing.T, w *world) { foreign(t, w.foreign[0], "blue", "1", "eth0") },
		},
		{name: "an unreadable conflist", conflist: json.RawMessage(`{`), want: "conflist"},
		{
			name: "the network is also containerd's", conflist: gc, sentinel: ErrForeignAttachments, want: "host/results/blue-1-eth0",
			prepare: func(t *testing.T, w *world) { foreign(t, w.foreign[0], "blue", "1", "eth0") },
		},
		{
			name: "the network is also Multus'", conflist: gc, sentinel: ErrForeignAttachments, want: "host/multus/results/blue-1-net1",
			prepare: func(t *testing.T, w *world) { foreign(t, w.foreign[1], "blue", "1", "net1") },
		},
		{
			name: "another runtime's file is damaged", conflist: gc, sentinel: ErrForeignAttachments, want: "blue-1-net1",
			prepare: func(t *testing.T, w *world) { damage(t, w.foreign[0], "blue-1-net1") },
		},
		{
			name: "another runtime's file is of the old form", conflist: gc, sentinel: ErrForeignAttachments, want: "blue-1-net1",
			prepare: func(t *testing.T, w *world) { write(t, w.foreign[0], "blue-1-net1", result) },
		},
		{
			name: "a file of our own is damaged", conflist: gc, want: "blue-1-net1",
			prepare: func(t *testing.T, w *world) { damage(t, w.results(), "blue-1-net1") },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.gcPlugins(t, "p")
			if tt.prepare != nil {
				tt.prepare(t, w)
			}
			err := w.GC(t.Context(), tt.conflist, nil)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || !errors.Is(err, tt.sentinel) && tt.sentinel != nil {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "log")); err == nil {
				t.Errorf("plugins ran: %v", w.log(t))
			}
		})
	}
}

// While a plugin runs there is no GC, and while GC runs there is nothing else.
func TestGCRunsAlone(t *testing.T) {
	a := version11("blue", "slow")
	gone := func(string, string) bool { return false }
	for verb, run := range map[string]func(*world) error{
		"ADD": func(w *world) error { _, err := w.Add(t.Context(), sandbox, a, nil); return err },
		"DEL": func(w *world) error { return w.Del(t.Context(), sandbox, a, nil) },
		"DEL of an orphan": func(w *world) error {
			orphans, err := w.Orphans(gone)
			return errors.Join(err, w.DelOrphan(t.Context(), orphans[0]))
		},
		"CHECK": func(w *world) error { return w.check(t.Context(), sandbox, a, json.RawMessage(result)) },
		"GC":    func(w *world) error { return w.GC(t.Context(), a.Conflist, nil) },
	} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t)
			fast := version11("blue", "fast")
			w.plugin(t, "fast", `echo '`+result+`'`)
			if s := w.attached(t, "orphan", fast); verb == "DEL of an orphan" {
				file, err := os.ReadFile(filepath.Join(w.results(), "blue-orphan-net1"))
				if err != nil {
					t.Fatal(err)
				}
				config := func(a attachment.Attachment) string { return base64.StdEncoding.EncodeToString(a.Conflist) }
				write(t, w.results(), "blue-orphan-net1", strings.Replace(string(file), config(fast), config(a), 1))
				if err := os.Remove(s.NetNS); err != nil {
					t.Fatal(err)
				}
			}
			fifo := filepath.Join(w.dir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			w.plugin(t, "slow", `read line <$DIR/fifo; echo '`+result+`'`)
			done := make(chan error)
			go func() { done <- run(w) }()
			f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once the plugin has it open
			if err != nil {
				t.Fatal(err)
			}
			if err := w.GC(t.Context(), a.Conflist, nil); !errors.Is(err, ErrPluginsRunning) {
				t.Errorf("GC beside it: %v", err)
			}
			if free := w.running.TryRLock(); free == (verb == "GC") {
				t.Errorf("an ADD beside it may run: %t", free)
			} else if free {
				w.running.RUnlock()
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// foreign writes another runtime's cache file, in libcni's form.
func foreign(t *testing.T, dir, network, id, ifName string) {
	t.Helper()
	write(t, dir, network+"-"+id+"-"+ifName, fmt.Sprintf(
		`{"kind":"cniCacheV1","containerId":%q,"config":"e30=","ifName":%q,"networkName":%q,"netns":"/run/netns/x","result":{}}`, id, ifName, network))
}

// A network whose name has the same beginning is another network.
func TestGCGoesOnBesideOtherNetworks(t *testing.T) {
	w := newWorld(t)
	w.gcPlugins(t, "p")
	foreign(t, w.foreign[0], "blue-green", "1", "eth0")
	foreign(t, w.foreign[1], "cbr0", "1", "eth0")
	if err := w.GC(t.Context(), version11("blue", "p").Conflist, nil); err != nil {
		t.Error(err)
	}
}

// The other runtimes' caches are looked for in the host's root.
func TestForeignCachesAreTheHosts(t *testing.T) {
	root := t.TempDir()
	r, err := New(Options{HostRoot: root, CacheDir: t.TempDir(), RuntimeCache: "/var/lib/cni/results", MultusCache: "/data/cni-multus/results"})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"disk", "data"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/disk", filepath.Join(root, "data/cni-multus")); err != nil {
		t.Fatal(err)
	}
	foreign(t, filepath.Join(root, "disk/results"), "blue", "1", "net1")
	err = r.GC(t.Context(), version11("blue", "p").Conflist, nil)
	if !errors.Is(err, ErrForeignAttachments) || !strings.Contains(err.Error(), "/data/cni-multus/results/blue-1-net1") {
		t.Errorf("error %v", err)
	}
	if foreign, err := r.Foreign("1"); err != nil || len(foreign) != 1 || foreign[0].Interface != "net1" {
		t.Errorf("in the sandbox: %+v, %v", foreign, err)
	}
	if foreign, err := r.Foreign("2"); err != nil || len(foreign) > 0 {
		t.Errorf("in another sandbox: %+v, %v", foreign, err)
	}
	damage(t, filepath.Join(root, "disk/results"), "blue-2-net1")
	if foreign, err := r.Foreign("2"); err == nil {
		t.Errorf("with a damaged file: %+v", foreign)
	}
}

// TestGCOfAnUnreadableForeignCache makes another runtime's cache unreadable: what it has is unknown, so that GC, which
// would free the addresses of its pods, does not run.
func TestGCOfAnUnreadableForeignCache(t *testing.T) {
	root := t.TempDir()
	write(t, root, "results", "not a directory")
	r, err := New(Options{HostRoot: root, CacheDir: t.TempDir(), RuntimeCache: "/var/lib/cni/results", MultusCache: "/results"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.GC(t.Context(), version11("blue", "p").Conflist, nil); err == nil || !strings.Contains(err.Error(), filepath.Join(root, "results")) {
		t.Errorf("error %v", err)
	}
	if foreign, err := r.Foreign("1"); err == nil {
		t.Errorf("in a sandbox: %+v", foreign)
	}
}

func TestGCOfPluginsThatDoNotKnowIt(t *testing.T) {
	const answer = `echo '{"cniVersion":"1.0.0","code":%d,"msg":%q}'; exit 1`
	tests := []struct {
		name, script string
		fails        bool
	}{
		{"today's skeleton before 1.1", fmt.Sprintf(answer, 4, "unknown CNI_COMMAND: GC"), false},
		{"an old skeleton", fmt.Sprintf(answer, 100, "unknown CNI_COMMAND: GC"), false},
		{"a plugin of before 1.1", fmt.Sprintf(answer, 1, "plugin version does not allow GC"), false},
		{"a plugin that does not implement it", ``, false},
		{"a failure", fmt.Sprintf(answer, 999, "database is locked"), true},
		{"no CNI error", `exit 1`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin(t, "p", tt.script)
			w.gcPlugins(t, "next")
			err := w.GC(t.Context(), version11("blue", "p", "next").Conflist, nil)
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff([]string{"GC next"}, w.log(t)); diff != "" {
				t.Errorf("the plugin after it (-want +got):\n%s", diff)
			}
		})
	}
}
