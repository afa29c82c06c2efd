package multusstate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const (
	shim    = `{"cniVersion":"0.3.1","name":"multus-cni-network","type":"multus-shim","logLevel":"verbose"}`
	thin    = `{"cniVersion":"1.0.0","name":"multus","plugins":[{"type":"multus","delegates":[]}]}`
	flannel = `{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"flannel"},{"type":"portmap"}]}`
)

func dirs(t *testing.T, files map[string]string) ConfDirs {
	t.Helper()
	d := ConfDirs{Conf: filepath.Join(t.TempDir(), "net.d"), Kept: filepath.Join(t.TempDir(), "state", "multus")}
	if err := os.Mkdir(d.Conf, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(d.Conf, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// files returns the files of a directory with their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(content)
	}
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Configurations that are taken away are given back unchanged, also if Take or Give is
// repeated.
func TestTakeAndGive(t *testing.T) {
	all := map[string]string{"00-multus.conf": shim, "01-thin.conflist": thin, "10-flannel.conflist": flannel, "broken.conf": "{", "README": "-"}
	d := dirs(t, all)
	for range 2 {
		if _, err := d.Take(); err != nil {
			t.Fatal(err)
		}
		same(t, "left", map[string]string{"10-flannel.conflist": flannel, "broken.conf": "{", "README": "-"}, files(t, d.Conf))
		same(t, "kept", map[string]string{"00-multus.conf": shim, "01-thin.conflist": thin}, files(t, d.Kept))
	}
	for range 2 {
		if _, err := d.Give(); err != nil {
			t.Fatal(err)
		}
		same(t, "given back", all, files(t, d.Conf))
		same(t, "kept", map[string]string{}, files(t, d.Kept))
	}
	info, err := os.Stat(filepath.Join(d.Conf, "00-multus.conf"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestReports(t *testing.T) {
	d := dirs(t, map[string]string{"00-multus.conf": shim, "10-flannel.conflist": flannel})
	taken, err := d.Take()
	same(t, "taken", probe.MultusConfReport{Moved: []string{"00-multus.conf"}, Left: []string{"10-flannel.conflist"}}, taken)
	again, err2 := d.Take()
	same(t, "taken again", probe.MultusConfReport{Moved: []string{}, Left: []string{"10-flannel.conflist"}}, again)
	given, err3 := d.Give()
	same(t, "given", probe.MultusConfReport{Moved: []string{"00-multus.conf"}, Left: []string{"00-multus.conf", "10-flannel.conflist"}}, given)
	for _, err := range []error{err, err2, err3} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Take refuses to move the last configuration.
func TestTakeKeepsTheLast(t *testing.T) {
	all := map[string]string{"00-multus.conf": shim, "broken.conf": "{"}
	d := dirs(t, all)
	if _, err := d.Take(); reason.Of(err) != reason.LastConfiguration || !strings.Contains(err.Error(), d.Conf) {
		t.Errorf("error %v", err)
	}
	same(t, "left", all, files(t, d.Conf))
}

// A configuration that Multus wrote meanwhile is newer than the kept one.
func TestNewerStays(t *testing.T) {
	d := dirs(t, map[string]string{"00-multus.conf": shim, "10-flannel.conflist": flannel})
	if _, err := d.Take(); err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(shim, "verbose", "error", 1)
	if err := os.WriteFile(filepath.Join(d.Conf, "00-multus.conf"), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Give(); err != nil {
		t.Fatal(err)
	}
	same(t, "configuration", map[string]string{"00-multus.conf": newer, "10-flannel.conflist": flannel}, files(t, d.Conf))
	same(t, "kept", map[string]string{}, files(t, d.Kept))
}

// A power cut between copy and removal leaves both files; the next Take removes one.
func TestInterrupted(t *testing.T) {
	d := dirs(t, map[string]string{"00-multus.conf": shim, "10-flannel.conflist": flannel})
	if err := os.MkdirAll(d.Kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Kept, "00-multus.conf"), []byte(shim), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Take(); err != nil {
		t.Fatal(err)
	}
	same(t, "left", map[string]string{"10-flannel.conflist": flannel}, files(t, d.Conf))
	same(t, "kept", map[string]string{"00-multus.conf": shim}, files(t, d.Kept))
}

func TestNoDirectory(t *testing.T) {
	d := ConfDirs{Conf: filepath.Join(t.TempDir(), "absent"), Kept: t.TempDir()}
	for _, do := range []func() (probe.MultusConfReport, error){d.Take, d.Give} {
		if _, err := do(); err == nil || !strings.Contains(err.Error(), d.Conf) {
			t.Errorf("error %v, want one with %s", err, d.Conf)
		}
	}
}

// TestAwait waits for a configuration of Multus that comes later, and one that never comes.
func TestAwaitConf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dirs(t, map[string]string{"10-flannel.conflist": flannel})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Second)
			if err := os.WriteFile(filepath.Join(d.Conf, "00-multus.conf"), []byte(shim), 0o600); err != nil {
				t.Error(err)
			}
		}()
		report, err := d.Await(ctx)
		if err != nil || ctx.Err() != nil {
			t.Fatal(err)
		}
		same(t, "the report", probe.MultusConfReport{Moved: []string{}, Left: []string{"00-multus.conf", "10-flannel.conflist"}}, report)

		d = dirs(t, map[string]string{"10-flannel.conflist": flannel})
		if _, err := d.Await(ctx); reason.Of(err) != reason.MultusConfigurationMissing || !strings.Contains(err.Error(), "10-flannel.conflist") {
			t.Errorf("without Multus: %v", err)
		}
	})
}

// TestWithoutMultus checks that a directory without any configuration does not count: the runtime reads
// another one.
func TestWithoutMultus(t *testing.T) {
	multus, flannel := `{"name":"multus-cni-network","type":"multus-shim"}`, `{"name":"cbr0","type":"flannel"}`
	for name, test := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"Multus and another":   {map[string]string{"00-multus.conf": multus, "10-flannel.conf": flannel}, false},
		"another":              {map[string]string{"10-flannel.conf": flannel}, true},
		"Multus, hidden":       {map[string]string{"00-multus.conf.off": multus, "10-flannel.conf": flannel}, true},
		"one that is not read": {map[string]string{"README": ""}, false},
		"none":                 {nil, false},
	} {
		d := ConfDirs{Conf: t.TempDir(), Kept: t.TempDir()}
		for file, content := range test.files {
			if err := os.WriteFile(filepath.Join(d.Conf, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := d.WithoutMultus(); got != test.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", name, got, err, test.want)
		}
		if _, err := d.Take(); name == "none" && reason.Of(err) != reason.LastConfiguration {
			t.Errorf("%s: taken away, with error %v", name, err)
		}
	}
	if got, err := (ConfDirs{Conf: "/does/not/exist"}).WithoutMultus(); got || err != nil {
		t.Errorf("without the directory: %t, %v", got, err)
	}
}

// TestHugeConfiguration checks that a configuration of any size is refused by its size, not read into the memory.
func TestHugeConfiguration(t *testing.T) {
	d := dirs(t, map[string]string{"00-multus.conf": shim, "10-flannel.conflist": flannel})
	if err := os.Truncate(filepath.Join(d.Conf, "00-multus.conf"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Take(); err == nil || !strings.Contains(err.Error(), "00-multus.conf") {
		t.Errorf("taking it away: %v", err)
	}
	if err := moveConf(filepath.Join(d.Conf, "00-multus.conf"), filepath.Join(d.Kept, "x.conf")); err == nil {
		t.Error("it was moved")
	}
}
