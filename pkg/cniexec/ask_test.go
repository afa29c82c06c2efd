package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// answer is a plugin that answers with a CNI error.
	answer = `cat >/dev/null; echo '{"cniVersion":"1.1.0","code":%d,"msg":%q,"details":%q}'; exit 1`
	// asked is a plugin that logs the verb.
	asked = `echo "$CNI_COMMAND NAME" >>$DIR/log; cat >$DIR/NAME.$CNI_COMMAND`
)

// ofVersion is the attachment with a conflist of another version.
func ofVersion(v string, a attachment.Attachment) attachment.Attachment {
	a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), "1.0.0", v, 1))
	return a
}

// logged is the world's log; nil when no plugin wrote any.
func (w *world) logged(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(w.dir, "log")); err != nil {
		return nil
	}
	return w.log(t)
}

// check is Check, of which only the error counts.
func (w *world) check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	_, err := w.Check(ctx, s, a, result)
	return err
}

func (w *world) askedPlugins(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		w.plugin(t, n, strings.ReplaceAll(asked, "NAME", n))
	}
}

func TestStatusAsksTheWholeChain(t *testing.T) {
	for v, want := range map[string][]string{"0.3.1": nil, "1.0.0": nil, "1.1.0": {"STATUS first", "STATUS second"}} {
		w := newWorld(t)
		w.askedPlugins(t, "first", "second")
		w.running.Lock() // as while a GC runs, which does not hold it up
		if err := w.Status(t.Context(), ofVersion(v, conflist("first", "second")).Conflist); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, w.logged(t)); diff != "" {
			t.Errorf("version %s (-want +got):\n%s", v, diff)
		}
	}
}

func TestStatusSaysWhoIsNotReadyAndWhy(t *testing.T) {
	w := newWorld(t)
	w.askedPlugins(t, "first")
	w.plugin(t, "sick", fmt.Sprintf(answer, 50, "daemon is down", "no socket"))
	err := w.Status(t.Context(), version11("blue", "first", "sick").Conflist)
	var reported *types.Error
	if !errors.As(err, &reported) || reported.Code != types.ErrPluginNotAvailable || reported.Msg != "daemon is down" {
		t.Errorf("CNI error %v", reported)
	}
	if want := `plugin type="sick" failed (status): daemon is down; no socket`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A plugin that hangs is killed, and the error has the time after which.
func TestStatusIsBounded(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "hang", `touch $DIR/begun; exec sleep 600`)
	err := w.Status(w.endOnceBegun(t, errors.New("the time for STATUS is over")), version11("blue", "hang").Conflist)
	if err == nil || !strings.Contains(err.Error(), `plugin type="hang"`) || !strings.Contains(err.Error(), "the time for STATUS is over") {
		t.Errorf("error %v", err)
	}
}

// Plugins answer an unknown verb in several ways; any other error counts.
func TestPluginsThatDoNotKnowAVerb(t *testing.T) {
	for verb, ask := range map[string]func(*world) error{
		"STATUS": func(w *world) error { return w.Status(t.Context(), version11("blue", "p", "next").Conflist) },
		"CHECK": func(w *world) error {
			return w.check(t.Context(), sandbox, version11("blue", "p", "next"), json.RawMessage(result))
		},
	} {
		for _, tt := range []struct {
			name, script string
			fails        bool
		}{
			{"today's skeleton before the verb", fmt.Sprintf(answer, 4, "unknown CNI_COMMAND: "+verb, ""), false},
			{"an old skeleton", fmt.Sprintf(answer, 100, "unknown CNI_COMMAND: "+verb, ""), false},
			{"a plugin of before the version", fmt.Sprintf(answer, 1, "plugin version does not allow "+verb, ""), false},
			{"a plugin that does not implement it", ``, false},
			{"a failure", fmt.Sprintf(answer, 999, "database is locked", ""), true},
			{"no CNI error", `echo oops >&2; exit 1`, true},
		} {
			t.Run(verb+" "+tt.name, func(t *testing.T) {
				w := newWorld(t)
				w.plugin(t, "p", tt.script)
				w.plugin(t, "next", `echo $CNI_COMMAND >>$DIR/log`)
				err := ask(w)
				if (err != nil) != tt.fails || err != nil && !strings.Contains(err.Error(), `plugin type="p"`) {
					t.Errorf("error %v", err)
				}
				if ran := w.logged(t) != nil; ran == tt.fails {
					t.Errorf("the plugin after it ran: %t", ran)
				}
			})
		}
	}
}

// CHECK gets all that ADD got, and the caller's result, not that of the cache.
func TestCheckHasWhatAddHad(t *testing.T) {
	for v, want := range map[string][]string{
		"0.3.1": nil, "0.4.0": {"0.4.0", "10.1.0.9/24"}, "1.0.0": {"1.0.0", "10.1.0.9/24"}, "1.1.0": {"1.1.0", "10.1.0.9/24"},
	} {
		t.Run(v, func(t *testing.T) {
			w := newWorld(t)
			added := strings.Replace(result, "1.0.0", v, 1)
			if v < "1.0.0" {
				added = strings.Replace(added, `"address"`, `"version":"4","address"`, 1)
			}
			for _, n := range []string{"first", "second"} {
				w.plugin(t, n, `if [ $CNI_COMMAND = ADD ]; then cat >/dev/null; echo '`+added+`'; else echo "$CNI_COMMAND `+n+
					` $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS" >>$DIR/log; cat >$DIR/`+n+`.$CNI_COMMAND; fi`)
			}
			a := ofVersion(v, conflist("first", "second"))
			a.CNIArgs = [][2]string{{"IP", "10.1.0.5"}}
			a.CapabilityArgs = map[string]json.RawMessage{"ips": json.RawMessage(`["10.1.0.5/24"]`)}
			res, err := w.Add(t.Context(), sandbox, a, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(res.Result)
			if err != nil {
				t.Fatal(err)
			}
			edited := strings.Replace(string(raw), "10.1.0.5", "10.1.0.9", 1)
			if err := w.check(t.Context(), sandbox, a, json.RawMessage(edited)); err != nil {
				t.Fatal(err)
			}
			if w.HasCheck(a) != (want != nil) {
				t.Errorf("HasCheck is %t", w.HasCheck(a))
			}
			if want == nil {
				if log := w.logged(t); log != nil {
					t.Errorf("plugins ran: %v", log)
				}
				return
			}
			args := " 0123456789ab /proc/self/ns/net net1 IgnoreUnknown=true;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;" +
				"K8S_POD_INFRA_CONTAINER_ID=0123456789ab;K8S_POD_UID=web-uid;IP=10.1.0.5"
			if diff := cmp.Diff([]string{"CHECK first" + args, "CHECK second" + args}, w.log(t)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			for _, n := range []string{"first.CHECK", "second.CHECK"} {
				if diff := cmp.Diff(want, w.prevResult(t, n)); diff != "" {
					t.Errorf("prevResult of %s (-want +got):\n%s", n, diff)
				}
				conf, err := os.ReadFile(filepath.Join(w.dir, n))
				if err != nil || !strings.Contains(string(conf), `"runtimeConfig":{"ips":["10.1.0.5/24"]}`) {
					t.Errorf("configuration %s (%v)", conf, err)
				}
			}
		})
	}
}

func TestCheckIsLeftOut(t *testing.T) {
	w := newWorld(t)
	w.askedPlugins(t, "p")
	a := conflist("p")
	a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), `"plugins"`, `"disableCheck":true,"plugins"`, 1))
	if err := w.check(t.Context(), sandbox, a, nil); err != nil || w.HasCheck(a) {
		t.Errorf("%v, HasCheck %t", err, w.HasCheck(a))
	}
	if log := w.logged(t); log != nil {
		t.Errorf("plugins ran: %v", log)
	}
}

// Without a result there is nothing to compare with, and no plugin is asked.
func TestCheckNeedsAResult(t *testing.T) {
	for name, raw := range map[string]string{"none": ``, "no JSON": `{`, "an unknown version": `{"cniVersion":"9.0.0"}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.askedPlugins(t, "p")
			err := w.check(t.Context(), sandbox, conflist("p"), json.RawMessage(raw))
			if err == nil || !strings.Contains(err.Error(), "version 1.0.0") {
				t.Errorf("error %v", err)
			}
			if log := w.logged(t); log != nil {
				t.Errorf("plugins ran: %v", log)
			}
		})
	}
}

// A plugin whose function for CHECK only returns that it is not implemented counts as a
// plugin without CHECK and is named; later plugins are asked all the same.
func TestCheckPassesOverPluginsThatImplementNone(t *testing.T) {
	for _, said := range []string{"CNI CHECK method is not implemented", "not implemented", "CHECK is not supported by this plugin"} {
		w := newWorld(t)
		w.plugin(t, "whereabouts-user", fmt.Sprintf(answer, 999, said, ""))
		w.askedPlugins(t, "next")
		unchecked, err := w.Check(t.Context(), sandbox, version11("blue", "whereabouts-user", "next"), json.RawMessage(`{"cniVersion":"1.0.0"}`))
		if err != nil {
			t.Errorf("%s: %v", said, err)
		}
		if diff := cmp.Diff([]string{"whereabouts-user"}, unchecked); diff != "" {
			t.Errorf("%s: unchecked (-want +got):\n%s", said, diff)
		}
		if diff := cmp.Diff([]string{"CHECK next"}, w.logged(t)); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", said, diff)
		}
	}
	w := newWorld(t)
	w.plugin(t, "sick", fmt.Sprintf(answer, 999, "the address is not there", ""))
	if err := w.check(t.Context(), sandbox, version11("blue", "sick"), json.RawMessage(`{"cniVersion":"1.0.0"}`)); err == nil {
		t.Error("what a plugin finds is ignored")
	}
}

// A plugin that exceeds its time limit gets SIGTERM first: it may hold a lock for which
// others wait.
func TestPluginsAreAskedToEnd(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", `trap 'echo gave it back >>$DIR/log; exit 1' TERM; echo begun >$DIR/begun; sleep 60 & wait`)
	if _, err := w.Add(w.endOnceBegun(t, context.DeadlineExceeded), sandbox, conflist("p"), nil); err == nil {
		t.Error("it succeeded")
	}
	if diff := cmp.Diff([]string{"gave it back"}, w.logged(t)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
