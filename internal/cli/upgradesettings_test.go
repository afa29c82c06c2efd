package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// A flag replaces what is stored, an empty one removes it, and one that is not given keeps
// it. Only stored hooks that are kept need an approval.
func TestSettingsOver(t *testing.T) {
	t.Setenv("TZ", "UTC")
	job := filepath.Join(t.TempDir(), "job.yaml")
	manifest := "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ops, name: check}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
	if err := os.WriteFile(job, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	stored := upgrade.Settings{
		Window: "22:00-04:00 Europe/Berlin", BeforeWave: &upgrade.Hook{Exec: "before"}, AfterWave: &upgrade.Hook{Exec: "after"},
		HookTimeout: metav1.Duration{Duration: time.Minute},
	}
	for name, tt := range map[string]struct {
		args   []string
		stored upgrade.Settings
		want   string // window, hooks, timeout
		kept   string
	}{
		"nothing":       {nil, upgrade.Settings{}, "|none|none|30m0s", "none|none"},
		"stored":        {nil, stored, "22:00-04:00 Europe/Berlin|exec:before|exec:after|1m0s", "exec:before|exec:after"},
		"window":        {[]string{"--window=sat 22:00-4:00"}, stored, "Sat 22:00-04:00 UTC|exec:before|exec:after|1m0s", "exec:before|exec:after"},
		"hooks":         {[]string{"--before-wave=exec:x", "--after-wave=job:" + job, "--hook-timeout=2m"}, stored, "22:00-04:00 Europe/Berlin|exec:x|job ops/check|2m0s", "none|none"},
		"one hook":      {[]string{"--before-wave=exec:x"}, stored, "22:00-04:00 Europe/Berlin|exec:x|exec:after|1m0s", "none|exec:after"},
		"the same hook": {[]string{"--before-wave=exec:before", "--after-wave=exec:after"}, stored, "22:00-04:00 Europe/Berlin|exec:before|exec:after|1m0s", "none|none"},
		"removed":       {[]string{"--window=", "--before-wave=", "--after-wave="}, stored, "|none|none|1m0s", "none|none"},
		"invalid ones":  {[]string{"--window=", "--before-wave="}, upgrade.Settings{Window: "at night", BeforeWave: &upgrade.Hook{}}, "|none|none|30m0s", "none|none"},
	} {
		t.Run(name, func(t *testing.T) {
			var f settingsFlags
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.add(set)
			if err := set.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			s, kept, err := f.over(tt.stored)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join([]string{s.Window, s.BeforeWave.String(), s.AfterWave.String(), s.HookLimit().String()}, "|"); got != tt.want {
				t.Errorf("settings %s, want %s", got, tt.want)
			}
			if got := kept.BeforeWave.String() + "|" + kept.AfterWave.String(); got != tt.kept {
				t.Errorf("kept %s, want %s", got, tt.kept)
			}
		})
	}
	for args, want := range map[string]string{
		"--window=22:00":          `reading --window: window "22:00": the times are "22:00": use HH:MM-HH:MM`,
		"--before-wave=notify":    `reading --before-wave "notify": it is neither a command nor a Job`,
		"--after-wave=job:absent": `reading --after-wave "job:absent": open absent: no such file`,
	} {
		var f settingsFlags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(set)
		if err := set.Parse([]string{args}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.over(upgrade.Settings{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
	var f settingsFlags
	f.add(pflag.NewFlagSet("", pflag.ContinueOnError))
	if _, _, err := f.over(upgrade.Settings{Window: "at night"}); err == nil || !strings.HasSuffix(err.Error(), "replace it by --window, --before-wave or --after-wave") {
		t.Errorf("a stored window that is invalid: %v", err)
	}
}

// Hooks of the cluster's state are shown in full, and do not run without a confirmation.
func TestStoredHooksNeedAConfirmation(t *testing.T) {
	plan := upgrade.Plan{APIVersion: upgrade.APIVersion, Kind: upgrade.PlanKind, Waves: []upgrade.Wave{{Name: "wave-1", Nodes: []upgrade.NodeShare{{Name: "n1"}}}}}
	state := upgrade.NewState()
	state.Settings.BeforeWave = &upgrade.Hook{Exec: "touch " + t.TempDir() + "/evil\r\x1b[2K"}
	planText, err := plan.JSON()
	if err != nil {
		t.Fatal(err)
	}
	stateText, err := state.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var written []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			written = append(written, r.Method+" "+r.URL.Path+" "+string(body))
		}
		if !strings.HasSuffix(r.URL.Path, "/configmaps/nadra-upgrade") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			Data:     map[string]string{"plan.json": string(planText), "state.json": string(stateText)},
		})
	}))
	t.Cleanup(server.Close)
	_, errs, code := runAgainst(t, server, "upgrade", "resume")
	want := "stored hook before-wave, which runs on this machine as you:\n  " + upgrade.Visible(state.Settings.BeforeWave.Exec) +
		"\nerror: asking for confirmation: standard input is not a terminal: use --yes\n"
	if diff := cmp.Diff(want, errs); diff != "" || code != CodeError {
		t.Errorf("exit code %d, standard error (-want +got):\n%s", code, diff)
	}
	if len(written) > 0 {
		t.Errorf("it wrote %q", written)
	}
	if out, errs, code := runAgainst(t, server, "upgrade", "status"); code != CodeOK || !strings.Contains(out, `Hook before-wave: exec:touch `) || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d, status:\n%s\n%s", code, out, errs)
	}
}

// A stored Job is shown with all that it could do.
func TestShowHooks(t *testing.T) {
	hook, err := upgrade.ParseHook("job:f", func(string) ([]byte, error) {
		return []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ops, name: check}\nspec: {template: {spec: {hostPID: true, containers: [{name: c, image: i, command: [sh, \"a\\u202eb\"]}]}}}\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	showHooks(&out, upgrade.Settings{AfterWave: hook})
	for _, want := range []string{"stored hook after-wave, a Job that is created with your rights:\n  apiVersion: batch/v1\n", "hostPID: true", "image: i", `a\u202eb`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it shows\n%s\nwithout %q", out.String(), want)
		}
	}
}
