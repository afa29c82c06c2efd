package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// apiSizes has the API server's metrics of the bytes that it has received and sent. It has none
// of the responses to writes.
var apiSizes = map[string]string{
	"apiserver_request_body_size_bytes_sum": "requests for",
	"apiserver_response_sizes_sum":          "responses to",
	"apiserver_watch_events_sizes_sum":      "watches of",
}

// apiBytes has how many bytes have passed through the API server, by direction and
// resource.
type apiBytes map[string]float64

// apiBytes reads the counters of all resources but leases.
func (t *trio) apiBytes(b *testing.B) apiBytes {
	b.Helper()
	out, found := apiBytes{}, map[string]bool{}
	for _, m := range apiMetrics(b, t.Kube) {
		way, ok := apiSizes[m.name]
		resource := m.label("resource")
		if !ok || resource == "leases" {
			continue
		}
		found[m.name] = true
		if verb := m.label("verb"); m.name == "apiserver_response_sizes_sum" {
			// A watch that ends, which the server makes it do every 5 to 10 minutes, counts as a
			// response with all of its events, and these are counted already.
			if verb == "WATCH" {
				continue
			}
			way = "responses to " + verb + " of"
		}
		if sub := m.label("subresource"); sub != "" {
			resource += "/" + sub
		}
		out[way+" "+resource] += m.value
	}
	if len(found) != len(apiSizes) {
		b.Fatalf("the API server's metrics have %v, want %v", found, apiSizes)
	}
	return out
}

// since returns the difference to an earlier reading, in KiB per pod.
func (a apiBytes) since(before apiBytes, pods int) apiBytes {
	out := apiBytes{}
	for what, bytes := range a {
		out[what] = (bytes - before[what]) / 1024 / float64(pods)
	}
	return out
}

func (a apiBytes) sum() float64 {
	sum := 0.0
	for _, bytes := range a {
		sum += bytes
	}
	return sum
}

// most names the largest parts.
func (a apiBytes) most(n int) string {
	names := slices.SortedFunc(maps.Keys(a), func(x, y string) int { return cmp.Compare(a[y], a[x]) })
	var parts []string
	for _, name := range names[:min(n, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %.0f", name, a[name]))
	}
	return strings.Join(parts, ", ")
}
