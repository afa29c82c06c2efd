package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
)

// profileTime is how long the scheduler is profiled. Shorter measurements are profiled until
// this time is over.
const profileTime = 10 * time.Second

// schedulerURL is where kube-scheduler serves its own endpoints, on its machine only.
const schedulerURL = "https://127.0.0.1:10259"

// endpoint reads a component's own endpoints, such as /debug/pprof, as the administrator.
type endpoint struct {
	client *http.Client
	url    string
}

// apiEndpoint returns the API server's endpoint.
func apiEndpoint(b *testing.B, c *cluster.Cluster) endpoint {
	b.Helper()
	config, err := c.RESTConfig()
	must(b, err)
	client, err := rest.HTTPClientFor(config)
	must(b, err)
	return endpoint{client, config.Host}
}

// schedulerEndpoint returns the scheduler's endpoint, whose certificate nobody has signed.
func schedulerEndpoint(b *testing.B, c *cluster.Cluster) endpoint {
	b.Helper()
	config, err := c.RESTConfig()
	must(b, err)
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	client, err := rest.HTTPClientFor(config)
	must(b, err)
	return endpoint{client, schedulerURL}
}

// get reads a path.
func (e endpoint) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", request.URL, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s: %.200s", request.URL, response.Status, content)
	}
	return content, nil
}

// profiled runs a measurement. If BENCH_PROFILE names a folder and the profile has a name, it saves a
// CPU profile of the scheduler during the measurement in scheduler-<name>.pprof there.
func (s *scale) profiled(b *testing.B, name string, measure func()) {
	dir := os.Getenv("BENCH_PROFILE")
	if dir == "" || name == "" {
		measure()
		return
	}
	must(b, os.MkdirAll(dir, 0o755))
	done := make(chan error)
	go func() {
		content, err := s.scheduler.get(b.Context(), fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", profileTime.Seconds()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "scheduler-"+name+".pprof"), content, 0o644)
		}
		done <- err
	}()
	measure()
	must(b, <-done)
}
