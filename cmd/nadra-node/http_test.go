package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver"
)

// fakeDriver is a driver whose checks a test sets.
type fakeDriver struct{ live, ready []driver.Check }

func (p fakeDriver) Live() []driver.Check  { return p.live }
func (p fakeDriver) Ready() []driver.Check { return p.ready }

func parsed(t *testing.T, args string) options {
	t.Helper()
	o, err := parse(append([]string{"--node-name=n"}, strings.Fields(args)...))
	if err != nil {
		t.Fatal(err)
	}
	o.Metrics = metrics.NewNode()
	return o
}

// ask asks the handler, from an address and for a host.
func ask(h http.Handler, method, path, body, from, host string) (status int, text string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = from, host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const elsewhere, here, node = "192.0.2.7:40000", "127.0.0.1:40000", "192.0.2.1:9078"

func TestChecksAreReported(t *testing.T) {
	p := fakeDriver{
		live: []driver.Check{{Name: "sweep", OK: true, Detail: "last turn 1s ago"}},
		ready: []driver.Check{
			{Name: "kubelet", OK: true, Detail: "registered"},
			{Name: "nri", Detail: "not connected since then: dial:\nno such file"},
		},
	}
	h := parsed(t, "").handler(p)
	for _, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{"/healthz", http.StatusOK, "[+]sweep: last turn 1s ago\nalive\n"},
		{"/readyz", http.StatusServiceUnavailable, "[+]kubelet: registered\n[-]nri: not connected since then: dial: no such file\nnot ready\n"},
		{"/debug/pprof/", http.StatusNotFound, ""},
		{"/", http.StatusNotFound, ""},
	} {
		status, text := ask(h, http.MethodGet, tt.path, "", elsewhere, node)
		if status != tt.status || tt.want != "" && text != tt.want {
			t.Errorf("%s: %d\n%s", tt.path, status, text)
		}
	}
	if status, text := ask(h, http.MethodGet, "/metrics", "", elsewhere, node); status != http.StatusOK || !strings.Contains(text, "nadra_build_info{") {
		t.Errorf("metrics: %d\n%s", status, text)
	}
	if status, _ := ask(h, http.MethodPost, "/metrics", "", elsewhere, node); status != http.StatusMethodNotAllowed {
		t.Errorf("metrics can be posted to: %d", status)
	}
	if status, text := ask(parsed(t, "").handler(fakeDriver{}), http.MethodGet, "/healthz", "", elsewhere, node); status != http.StatusOK || text != "alive\n" {
		t.Errorf("a driver that starts: %d %q", status, text)
	}
}

// The level is the node's own affair, and no page's in a browser.
func TestLogLevel(t *testing.T) {
	o := parsed(t, "-v=2")
	t.Cleanup(func() { _ = o.verbosity.Set("0") })
	h := o.handler(fakeDriver{})
	for _, tt := range []struct {
		method, body, from, host string
		status                   int
		want                     string
	}{
		{http.MethodGet, "", here, "127.0.0.1:9078", http.StatusOK, "2\n"},
		{http.MethodPut, "4\n", here, "localhost:9078", http.StatusOK, "4\n"},
		{http.MethodGet, "", "[::1]:4000", "[::1]:9078", http.StatusOK, "4\n"},
		{http.MethodPut, "5", "[::ffff:127.0.0.1]:4000", "127.0.0.1", http.StatusOK, "5\n"},
		{http.MethodPut, "8", here, "localhost:9078", http.StatusBadRequest, `"8"`},
		{http.MethodPut, "-1", here, "localhost:9078", http.StatusBadRequest, "7"},
		{http.MethodPut, "more", here, "localhost:9078", http.StatusBadRequest, `"more"`},
		{http.MethodPut, strings.Repeat("1", 100), here, "localhost:9078", http.StatusBadRequest, "7"},
		{http.MethodPost, "1", here, "localhost:9078", http.StatusMethodNotAllowed, "PUT"},
		{http.MethodPut, "1", elsewhere, "localhost:9078", http.StatusForbidden, "kubectl port-forward"},
		{http.MethodGet, "", elsewhere, node, http.StatusForbidden, ""},
		{http.MethodPut, "1", "192.0.2.1:40000", node, http.StatusForbidden, ""}, // by the node's own address
		{http.MethodPut, "1", here, "evil.example:9078", http.StatusForbidden, ""},
		{http.MethodGet, "", here, "localhost", http.StatusOK, "5\n"},
	} {
		status, text := ask(h, tt.method, "/loglevel", tt.body, tt.from, tt.host)
		if status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %q from %s to %s: %d %q", tt.method, tt.body, tt.from, tt.host, status, text)
		}
	}
	if !klog.V(5).Enabled() || klog.V(6).Enabled() {
		t.Error("klog has another level")
	}
}

func TestProfiles(t *testing.T) {
	h := parsed(t, "--pprof").handler(fakeDriver{})
	if status, text := ask(h, http.MethodGet, "/debug/pprof/goroutine?debug=1", "", here, "localhost"); status != http.StatusOK || !strings.Contains(text, "goroutine profile") {
		t.Errorf("from the node: %d\n%s", status, text)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace", "/debug/pprof/symbol"} {
		if status, _ := ask(h, http.MethodGet, path, "", elsewhere, node); status != http.StatusForbidden {
			t.Errorf("%s from elsewhere: %d", path, status)
		}
	}
}

func TestHTTPFlags(t *testing.T) {
	if o := parsed(t, ""); o.httpAddress != ":9078" || o.pprof {
		t.Errorf("the defaults are %q, %v", o.httpAddress, o.pprof)
	}
	for args, want := range map[string]string{
		"--http-address=9078":     `--http-address is "9078"`,
		"--http-address= --pprof": "--pprof",
	} {
		if _, err := parse(append([]string{"--node-name=n"}, strings.Fields(args)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// The manifests have the port that the driver has.
func TestPortOfTheManifests(t *testing.T) {
	_, port, err := net.SplitHostPort(defaultHTTP)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"base/node-daemonset.yaml": "metrics on port ", "chart/values.yaml": "httpPort: "} {
		text, err := os.ReadFile("../../manifests/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want+port) {
			t.Errorf("%s lacks %s%s", file, want, port)
		}
	}
}

// The port may be the one before's for a moment; another's ends the driver in
// words.
func TestPort(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := parsed(t, "--http-address="+before.Addr().String())
	inUse, stop := context.WithTimeout(t.Context(), 2*portPoll)
	defer stop()
	if l, err := listen(inUse, o.httpAddress); err == nil {
		l.Close()
		t.Fatal("the port of another was opened")
	}
	time.AfterFunc(portPoll/2, func() { before.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	m := &withMetrics{healthy: fakeDriver{}, address: o.httpAddress}
	if checks := m.Ready(); len(checks) != 1 || checks[0].OK || checks[0].Name != "http" {
		t.Errorf("without the port: %+v", checks)
	}
	served := make(chan error, 1)
	go func() { served <- o.serveHTTP(ctx, m, func() { m.open.Store(true) }) }()
	var answer *http.Response
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if answer, err = http.Get(fmt.Sprintf("http://%s/healthz", before.Addr())); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if string(text) != "alive\n" {
		t.Errorf("answer %q", text)
	}
	if checks := m.Ready(); !checks[0].OK {
		t.Errorf("with the port: %+v", checks)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if again, err := net.Listen("tcp", before.Addr().String()); err != nil {
		t.Errorf("the port is kept: %v", err)
	} else {
		again.Close()
	}
	if err := parsed(t, "--http-address=").serveHTTP(t.Context(), fakeDriver{}, func() { t.Error("opened") }); err != nil {
		t.Error(err)
	}
}

// TestOnePodsHealth asks the driver of a pod as its probes do: while it is started, serves, and has
// handed over.
func TestOnePodsHealth(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "health.sock")
	health := &podHealth{started: time.Now()}
	health.set(handedOver{errors.New("handed over to another driver")})
	if err := health.serve(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	ask := func(probe string) error {
		return run(t.Context(), []string{"health", "-health-socket=" + socket, probe}, io.Discard)
	}
	for _, c := range []struct {
		of      healthy
		started time.Time
		fails   []string
	}{
		{handedOver{errors.New("handed over")}, time.Now(), nil},
		{fakeDriver{ready: []driver.Check{{Name: "nri"}}}, time.Now(), []string{"ready", "started"}},
		{fakeDriver{ready: []driver.Check{{Name: "nri"}}}, time.Now().Add(-2 * startLimit), []string{"ready"}},
		{fakeDriver{}, time.Now(), nil},
	} {
		health.started = c.started
		health.set(c.of)
		for _, probe := range probes {
			if err := ask(probe); (err != nil) != slices.Contains(c.fails, probe) {
				t.Errorf("%T, started %s ago: %s: %v", c.of, time.Since(c.started).Round(time.Second), probe, err)
			}
		}
	}
	if err := ask("other"); err == nil {
		t.Error("an unknown probe passes")
	}
}
