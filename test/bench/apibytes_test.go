//go:build e2e

package bench

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// apiSizes are the API server's own sums of what it was sent and has sent.
var apiSizes = []string{"apiserver_request_body_size_bytes_sum", "apiserver_response_sizes_sum", "apiserver_watch_events_sizes_sum"}

// apiBytes returns how much has passed through the API server, without leases.
func (t *trio) apiBytes(b *testing.B) float64 {
	b.Helper()
	text, err := t.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	must(b, err)
	sum := 0.0
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(line, "{")
		if !ok || !slices.Contains(apiSizes, name) || strings.Contains(rest, `resource="leases"`) {
			continue
		}
		_, value, _ := strings.Cut(rest, "} ")
		bytes, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		must(b, err)
		found[name] = true
		sum += bytes
	}
	if len(found) != len(apiSizes) {
		b.Fatalf("the API server's metrics have %v, want %v", found, apiSizes)
	}
	return sum
}
