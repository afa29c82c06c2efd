package bench

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// metric is one sample that a program serves to Prometheus.
type metric struct {
	name, labels string
	value        float64
}

// label returns the value of a label, or "".
func (m metric) label(name string) string {
	_, rest, _ := strings.Cut(","+m.labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// apiMetrics returns the API server's samples that have labels.
func apiMetrics(b *testing.B, kube kubernetes.Interface) []metric {
	b.Helper()
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	must(b, err)
	var out []metric
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(line, "{")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(rest, "} ")
		number, err := strconv.ParseFloat(strings.TrimSpace(rest[end+2:]), 64)
		must(b, err)
		out = append(out, metric{name, rest[:end], number})
	}
	return out
}
