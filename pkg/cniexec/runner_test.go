package cniexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// world is a directory of plugins that are shell scripts, and a Runner.
type world struct {
	*Runner
	dir, bin string

	mu  sync.Mutex
	ran []string // calls of Options.Ran
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{dir: dir, bin: filepath.Join(dir, "bin")}
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{
		HostRoot: "/", BinDirs: []string{filepath.Join(dir, "nothing"), w.bin}, CacheDir: filepath.Join(dir, "cache"),
		RuntimeCache: filepath.Join(dir, "host", "results"), MultusCache: filepath.Join(dir, "host", "multus", "results"),
		Ran: func(plugin, verb string, took time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ran = append(w.ran, fmt.Sprint(verb, " ", plugin, " ", took >= 0))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Runner = r
	return w
}

// plugin writes a script. It runs with $DIR as the world's directory.
func (w *world) plugin(t *testing.T, name, script string) {
	t.Helper()
	text := "#!/bin/sh\nDIR=" + w.dir + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(w.bin, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// log returns what plugins wrote to $DIR/log, a line each.
func (w *world) log(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

var sandbox = attachment.Sandbox{
	ID: "0123456789ab", NetNS: "/proc/self/ns/net",
	Pod: attachment.PodRef{Namespace: "default", Name: "web", UID: "web-uid"},
}

func conflist(types ...string) attachment.Attachment {
	var plugins []string
	for _, t := range types {
		plugins = append(plugins, fmt.Sprintf(`{"type":%q,"capabilities":{"ips":true},"big":9007199254740993}`, t))
	}
	return attachment.Attachment{
		Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: "net1", CNIName: "blue",
		Conflist: json.RawMessage(`{"cniVersion":"1.0.0","name":"blue","plugins":[` + strings.Join(plugins, ",") + `]}`),
	}
}

const result = `{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"x"}],"ips":[{"address":"10.1.0.5/24","interface":0}]}`

func TestAddAndDelRunTheWholeChain(t *testing.T) {
	w := newWorld(t)
	record := `echo "$CNI_COMMAND NAME $CNI_CONTAINERID $CNI_IFNAME $CNI_ARGS" >>$DIR/log; cat >>$DIR/stdin; echo >>$DIR/stdin; [ $CNI_COMMAND = ADD ] && echo '` + result + `' || true`
	w.plugin(t, "first", strings.Replace(record, "NAME", "first", 1))
	w.plugin(t, "second", strings.Replace(record, "NAME", "second", 1))
	a := conflist("first", "second")
	a.CNIArgs = [][2]string{{"IP", "10.1.0.5"}}
	a.CapabilityArgs = map[string]json.RawMessage{"ips": json.RawMessage(`["10.1.0.5/24"]`)}

	got, err := w.Add(t.Context(), sandbox, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ips := got.Result.IPs; len(ips) != 1 || ips[0].Address.String() != "10.1.0.5/24" {
		t.Errorf("result %v", got.Result)
	}
	if err := w.Del(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ADD first true", "ADD second true", "DEL second true", "DEL first true"}, w.ran); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
	args := " 0123456789ab net1 IgnoreUnknown=true;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=0123456789ab;K8S_POD_UID=web-uid;IP=10.1.0.5"
	plain := strings.TrimSuffix(args, ";IP=10.1.0.5")
	want := []string{"ADD first" + args, "ADD second" + args, "DEL second" + plain, "DEL first" + plain}
	if diff := cmp.Diff(want, w.log(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	stdin, err := os.ReadFile(filepath.Join(w.dir, "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(stdin)), "\n") {
		var conf struct {
			RuntimeConfig struct{ IPs []string } `json:"runtimeConfig"`
			PrevResult    json.RawMessage        `json:"prevResult"`
		}
		if err := json.Unmarshal([]byte(line), &conf); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"10.1.0.5/24"}, conf.RuntimeConfig.IPs); diff != "" {
			t.Errorf("runtimeConfig.ips in %s", line)
		}
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "cache", "results", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("cache after DEL: %v (%v)", left, err)
	}
}

func TestDelOfAGoneNamespaceHasNone(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", `echo "netns=$CNI_NETNS" >>$DIR/log`)
	s := sandbox
	s.NetNS = filepath.Join(w.dir, "gone")
	if err := w.Del(t.Context(), s, conflist("p"), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"netns="}, w.log(t)); diff != "" {
		t.Error(diff)
	}
}

// A runtime that does not wait for the DELs takes the namespace from its path between
// two plugins. They run once more, in the namespace, and so do the plugins that they start.
func TestDelGoesOnInTheNamespaceThatIsKept(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "last", `echo "last $(readlink $CNI_NETNS)" >>$DIR/log; rm -f $DIR/netns`)
	w.plugin(t, "first", `exec $DIR/bin/child`)
	w.plugin(t, "child", `echo "first $(readlink $CNI_NETNS)" >>$DIR/log`)
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	id, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	s := sandbox
	s.NetNS, s.NetNSFD = filepath.Join(w.dir, "netns"), int(own.Fd())
	for _, step := range []struct {
		name string
		want []string
	}{
		{"taken during the DEL", []string{"last /proc/self/ns/net", "first ", "last " + id, "first " + id}},
		{"taken before the DEL", []string{"last " + id, "first " + id}},
	} {
		if len(step.want) > 2 {
			if err := os.Symlink("/proc/self/ns/net", s.NetNS); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(filepath.Join(w.dir, "log")); err != nil {
			t.Fatal(err)
		}
		if err := w.Del(t.Context(), s, conflist("first", "last"), nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, w.log(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestDelOfAPluginThatGoesByThePath checks that ovs, which finds its port by the path of the namespace at ADD, gets this
// path also if nothing is there any more, but not if it has to take a device out of the namespace.
func TestDelOfAPluginThatGoesByThePath(t *testing.T) {
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	w := newWorld(t)
	for _, name := range []string{"ovs", "other"} {
		w.plugin(t, name, `cat >/dev/null; echo "$0 $CNI_NETNS" | sed "s|.*/bin/||" >>$DIR/log`)
	}
	gone := filepath.Join(w.dir, "gone")
	withDevice := conflist("ovs")
	withDevice.Conflist = json.RawMessage(strings.Replace(string(withDevice.Conflist), `"type":"ovs"`, `"type":"ovs","deviceID":"0000:01:00.1"`, 1))
	for _, tt := range []struct {
		name string
		path string
		kept int
		a    attachment.Attachment
		want []string
	}{
		{"the namespace is at its path", sandbox.NetNS, 0, conflist("ovs"), []string{"ovs " + sandbox.NetNS}},
		{"it is kept", gone, int(own.Fd()), conflist("ovs", "other"), []string{"other " + keptPath, "ovs " + gone}},
		{"it is gone", gone, 0, conflist("ovs", "other"), []string{"other ", "ovs " + gone}},
		{"it is kept, with a device", gone, int(own.Fd()), withDevice, []string{"ovs " + keptPath}},
	} {
		if err := os.RemoveAll(filepath.Join(w.dir, "log")); err != nil {
			t.Fatal(err)
		}
		s := sandbox
		s.NetNS, s.NetNSFD = tt.path, tt.kept
		if err := w.Del(t.Context(), s, tt.a, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, w.log(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Some plugins do nothing for a namespace that is gone, and others fail: the addresses are
// released all the same.
func TestDelOfAGoneNamespaceReleasesAddresses(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "idle", `[ "$CNI_NETNS" ] && echo unexpected >>$DIR/log; exit 0`)
	w.plugin(t, "fails", `echo '{"cniVersion":"1.0.0","code":999,"msg":"no namespace"}'; exit 1`)
	w.plugin(t, "pool", `echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME netns=$CNI_NETNS $(sed 's/.*"name":"\([a-z]*\)".*/\1/')" >>$DIR/log`)
	a := conflist("idle", "fails")
	a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), `"type":"idle"`, `"type":"idle","ipam":{"type":"pool"}`, 1))
	s := sandbox
	s.NetNS = filepath.Join(w.dir, "gone")
	if err := w.Del(t.Context(), s, a, nil); err == nil || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("the error of the chain: %v", err)
	}
	if diff := cmp.Diff([]string{"DEL 0123456789ab net1 netns= blue"}, w.log(t)); diff != "" {
		t.Error(diff)
	}
}

// sbr changes only the namespace and fails without one. The plugins before it run all the
// same, and no DEL is pending.
func TestDelOfAGoneNamespaceHasNothingLeftForSBR(t *testing.T) {
	const failure = `echo '{"cniVersion":"1.0.0","code":999,"msg":"open : no such file or directory"}'; exit 1`
	for name, tt := range map[string]struct {
		plugin, script string
		there          bool
		want           string // of the error; empty for success
	}{
		"fails without a namespace":  {plugin: "sbr", script: failure},
		"succeeds without one":       {plugin: "sbr", script: `exit 0`},
		"fails with a namespace":     {plugin: "sbr", script: failure, there: true, want: "no such file"},
		"is killed":                  {plugin: "sbr", script: `kill -9 $$`, want: "signal: killed"},
		"has not spoken CNI":         {plugin: "sbr", script: `echo panic >&2; exit 2`, want: "panic"},
		"is missing":                 {plugin: "sbr", want: `finding plugin "sbr"`},
		"another plugin, for others": {plugin: "portmap", script: failure, want: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin(t, "first", `echo "$CNI_COMMAND netns=$CNI_NETNS" >>$DIR/log; [ $CNI_COMMAND = DEL ] || echo '`+result+`'`)
			w.plugin(t, tt.plugin, `[ $CNI_COMMAND = DEL ] || exec echo '`+result+`'; `+tt.script)
			a := conflist("first", tt.plugin)
			if _, err := w.Add(t.Context(), sandbox, a, nil); err != nil {
				t.Fatal(err)
			}
			if tt.script == "" {
				if err := os.Remove(filepath.Join(w.bin, tt.plugin)); err != nil {
					t.Fatal(err)
				}
			}
			s := sandbox
			if !tt.there {
				s.NetNS = filepath.Join(w.dir, "gone")
			}
			err := w.Del(t.Context(), s, a, nil)
			cached, globErr := filepath.Glob(filepath.Join(w.dir, "cache", "results", "*"))
			if globErr != nil {
				t.Fatal(globErr)
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || len(cached) != 1 {
					t.Errorf("error %v, want %q; cached %v", err, tt.want, cached)
				}
				return
			}
			if diff := cmp.Diff([]string{"ADD netns=/proc/self/ns/net", "DEL netns="}, w.log(t)); err != nil || diff != "" || len(cached) != 0 {
				t.Errorf("error %v, cached %v, calls (-want +got):\n%s", err, cached, diff)
			}
		})
	}
}

// Damage to libcni's cache of a result, as a crash or a disk may do it.
var cacheDamage = map[string]func(path string) error{
	"whole": func(string) error { return nil },
	"lost":  os.Remove,
	"empty": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"cut off": func(path string) error {
		return os.Truncate(path, 100)
	},
}

// The result that the driver kept reaches the plugins when libcni's is lost.
func TestDelHasTheResultOfAdd(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for name, damage := range cacheDamage {
			t.Run(version+" "+name, func(t *testing.T) {
				w := newWorld(t)
				added := strings.Replace(result, "1.0.0", version, 1)
				if version < "1.0.0" {
					added = strings.Replace(added, `"address"`, `"version":"4","address"`, 1)
				}
				script := `cat >$DIR/NAME.$CNI_COMMAND; [ $CNI_COMMAND = DEL ] || echo '` + added + `'`
				w.plugin(t, "first", strings.Replace(script, "NAME", "first", 1))
				w.plugin(t, "second", strings.Replace(script, "NAME", "second", 1))
				a := conflist("first", "second")
				a.Conflist = []byte(strings.Replace(string(a.Conflist), "1.0.0", version, 1))
				res, err := w.Add(t.Context(), sandbox, a, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := damage(filepath.Join(w.results(), "blue-0123456789ab-net1")); err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(res.Result)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Del(t.Context(), sandbox, a, raw); err != nil {
					t.Fatal(err)
				}
				want := []string{version, "10.1.0.5/24"}
				if version == "0.3.1" {
					want = []string{"", ""}
				}
				for _, plugin := range []string{"first", "second"} {
					if diff := cmp.Diff(want, w.prevResult(t, plugin+".DEL")); diff != "" {
						t.Errorf("prevResult of %s (-want +got):\n%s", plugin, diff)
					}
				}
			})
		}
	}
}

// prevResult returns the version and the first address of the prevResult in a
// configuration that a plugin wrote down; empty without one.
func (w *world) prevResult(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var conf struct {
		PrevResult struct {
			CNIVersion string
			IPs        []struct{ Address string }
		} `json:"prevResult"`
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		t.Fatal(err)
	}
	out := []string{conf.PrevResult.CNIVersion, ""}
	if len(conf.PrevResult.IPs) > 0 {
		out[1] = conf.PrevResult.IPs[0].Address
	}
	return out
}

func TestDelGoesOnWithoutAResultThatCannotBeConverted(t *testing.T) {
	for name, raw := range map[string]string{
		"an unknown version": `{"cniVersion":"9.0.0"}`, "no JSON": `{`, "another type": `["a"]`, "a bad address": `{"cniVersion":"1.1.0","ips":[{"address":"?"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin(t, "p", `cat >$DIR/p.DEL`)
			if err := w.Del(t.Context(), sandbox, conflist("p"), json.RawMessage(raw)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"", ""}, w.prevResult(t, "p.DEL")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDelIsTriedWithoutArguments checks that arguments of the pod that a plugin refuses in ADD do not keep its DEL from
// succeeding, and that a DEL gets them as long as it may need them.
func TestDelIsTriedWithoutArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		refuses, result string
		code            uint // 999 if it is 0
		deleted         bool
		dels            []string // what each has in args.cni
	}{
		"refused":              {refuses: `"ips":5`, deleted: true, dels: []string{`{"ips":5,"own":"x"}`, `{"own":"x"}`}},
		"accepted":             {refuses: "nothing", deleted: true, dels: []string{`{"ips":5,"own":"x"}`}},
		"refused without":      {refuses: "args", dels: []string{`{"ips":5,"own":"x"}`, `{"own":"x"}`}},
		"refused after an ADD": {refuses: `"ips":5`, result: result, dels: []string{`{"ips":5,"own":"x"}`}},
		"for a passing reason": {refuses: `"ips":5`, code: types.ErrTryAgainLater, dels: []string{`{"ips":5,"own":"x"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			w, code := newWorld(t), "999"
			if tt.code > 0 {
				code = fmt.Sprint(tt.code)
			}
			w.plugin(t, "p", `cat >$DIR/in; sed 's/.*"args":{"cni":\({[^}]*}\).*/\1/' $DIR/in >>$DIR/log; echo >>$DIR/log
if grep -q '`+tt.refuses+`' $DIR/in; then echo '{"code":`+code+`,"msg":"refused"}'; exit 1; fi`)
			a, err := attachment.NewAttachment(attachment.Network{
				Ref: attachment.NetworkRef{Namespace: "default", Name: "blue"}, CNIName: "blue",
				Conflist: json.RawMessage(`{"cniVersion":"1.0.0","name":"blue","plugins":[{"type":"p","args":{"cni":{"own":"x"}}}]}`),
			}, attachment.Selection{CNIArgs: map[string]json.RawMessage{"ips": json.RawMessage("5")}}, "net1")
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Del(t.Context(), sandbox, a, json.RawMessage(tt.result)); (err == nil) != tt.deleted {
				t.Errorf("DEL: %v", err)
			}
			dels := slices.DeleteFunc(w.log(t), func(line string) bool { return line == "" })
			if diff := cmp.Diff(tt.dels, dels); diff != "" {
				t.Errorf("args.cni of the DELs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsNameThePluginAndItsWords(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string
		code         uint
	}{
		{"a CNI error", `echo '{"cniVersion":"1.0.0","code":11,"msg":"no lease yet","details":"try again"}'; exit 1`, []string{`plugin type="p"`, "no lease yet; try again"}, types.ErrTryAgainLater},
		{"stderr only", `echo "cannot open /dev/vfio" >&2; exit 3`, []string{`plugin type="p"`, "exit status 3", "cannot open /dev/vfio"}, 0},
		{"garbage and exit 1", `echo "panic: oops"; exit 1`, []string{`plugin type="p"`, "exit status 1", "panic: oops"}, 0},
		{"garbage and exit 0", `echo "hello <world>"`, []string{`plugin type="p"`, "hello <world>"}, 0},
		{"killed", `kill -SEGV $$`, []string{`plugin type="p"`, "segmentation fault"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin(t, "p", tt.script)
			_, err := w.Add(t.Context(), sandbox, conflist("p"), nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			var reported *types.Error
			if errors.As(err, &reported) != (tt.code != 0) || tt.code != 0 && reported.Code != tt.code {
				t.Errorf("CNI code of %v, want %d", reported, tt.code)
			}
		})
	}
}

// The plugin and the IPAM plugin that it started both die with the deadline, also if the second ignores SIGTERM.
func TestDeadlineEndsTheWholeGroup(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "hang", `(trap '' TERM; exec sleep 600) & echo $! >$DIR/child; echo $$ >$DIR/parent; touch $DIR/begun; wait`)
	started := time.Now()
	_, err := w.Add(w.endOnceBegun(t, errors.New("the budget is spent")), sandbox, conflist("hang"), nil)
	if err == nil || !strings.Contains(err.Error(), `plugin type="hang"`) || !strings.Contains(err.Error(), "the budget is spent") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(started); took > time.Minute { // the plugin's child would run for ten
		t.Errorf("returned after %s", took)
	}
	for _, who := range []string{"parent", "child"} {
		b, err := os.ReadFile(filepath.Join(w.dir, who))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		waitGone(t, who, pid)
	}
}

// waitGone fails when the process still runs; a zombie does not run.
func waitGone(t *testing.T, who string, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("%s (PID %d) still runs", who, pid)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A daemon that a plugin leaves behind with its output open is no failure.
func TestPluginMayLeaveADaemon(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", `sleep 2 & echo '`+result+`'`)
	if _, err := w.Add(t.Context(), sandbox, conflist("p"), nil); err != nil {
		t.Error(err)
	}
}

func TestBusyBinaryIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	shell, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.bin, "busy")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(shell); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(3*busyRetry, func() { f.Close() })
	if err := w.Del(t.Context(), sandbox, conflist("busy"), nil); err != nil {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "there", "")
	if err := os.WriteFile(filepath.Join(w.bin, "noexec"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := w.Missing([]string{"there", "noexec", "absent", "../bin/there"})
	if diff := cmp.Diff([]string{"noexec", "absent", "../bin/there"}, got); diff != "" {
		t.Error(diff)
	}
}

// No plugin is given the host's network namespace: ADD and CHECK are refused, and
// a DEL frees what is kept elsewhere.
func TestPluginsDoNotGetTheHostsNamespace(t *testing.T) {
	w := newWorld(t)
	w.isHost = func(path string) bool { return path == sandbox.NetNS }
	w.plugin(t, "p", `cat >/dev/null; echo "$CNI_COMMAND netns=$CNI_NETNS" >>$DIR/log`)
	if _, err := w.Add(t.Context(), sandbox, conflist("p"), nil); !errors.Is(err, errHostNetwork) {
		t.Errorf("ADD: %v", err)
	}
	if _, err := w.Check(t.Context(), sandbox, conflist("p"), json.RawMessage(`{"cniVersion":"1.0.0"}`)); !errors.Is(err, errHostNetwork) {
		t.Errorf("CHECK: %v", err)
	}
	if err := w.Del(t.Context(), sandbox, conflist("p"), nil); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if diff := cmp.Diff([]string{"DEL netns="}, w.log(t)); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// TestOutputWithoutEnd checks that a plugin may print more than is kept, and ends by itself: a result that is cut is
// refused, and what nobody reads is not.
func TestOutputWithoutEnd(t *testing.T) {
	w := newWorld(t)
	fill := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' ' '", 4*maxStdout)
	w.plugin(t, "p", `cat >/dev/null
case $CNI_COMMAND in
ADD) echo '`+result+`'; `+fill+` ;;
DEL) `+fill+`; `+fill+` >&2 ;;
esac
echo "$CNI_COMMAND has ended" >>$DIR/log`)
	w.plugin(t, "fails", `cat >/dev/null; head -c `+fmt.Sprint(4*maxStdout)+` /dev/zero | tr '\0' x | tee /dev/stderr; exit 1`)
	_, err := w.Add(t.Context(), sandbox, conflist("p"), nil)
	if err == nil || !Transient(err) || len(err.Error()) > 4*maxQuoted {
		t.Errorf("a long result: %.200v", err)
	}
	if err := w.Del(t.Context(), sandbox, conflist("p"), nil); err != nil {
		t.Errorf("a long answer to DEL: %.200v", err)
	}
	if diff := cmp.Diff([]string{"ADD has ended", "DEL has ended"}, w.log(t)); diff != "" {
		t.Errorf("the plugin (-want +got):\n%s", diff)
	}
	stdout, stderr, err := w.exec.run(t.Context(), filepath.Join(w.bin, "fails"), nil, nil)
	if err == nil || len(stdout.Kept) != maxStdout || len(stderr.Kept) != maxStderr || !stdout.Cut || !stderr.Cut {
		t.Errorf("kept %d and %d bytes, %v", len(stdout.Kept), len(stderr.Kept), err)
	}
}
