package metrics

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series returns the series of a metric, each as its label values.
func series(t *testing.T, from prometheus.Gatherer, name string) []string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			out = append(out, strings.Join(labels, ","))
		}
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A network has all of its series from its first event on, and none when it no longer exists.
func TestNetworks(t *testing.T) {
	n := NewNode()
	conf := []byte(`{"plugins": [{"type": "macvlan"}, {"type": "tuning"}]}`)
	blue := n.Network("a", "blue", conf)
	if n.Network("a", "blue", nil) != blue {
		t.Error("the metrics are created twice")
	}
	n.Network("b", "blue", []byte(`{"type": "ipvlan"}`)).Added(time.Second, nil, false)
	n.Network("a", "red", []byte(`{`)).Deleted(time.Second, nil)
	same(t, "attaching", []string{
		"ipvlan,blue,b,error", "ipvlan,blue,b,success", "ipvlan,blue,b,transient",
		"macvlan,blue,a,error", "macvlan,blue,a,success", "macvlan,blue,a,transient",
		"unknown,red,a,error", "unknown,red,a,success", "unknown,red,a,transient",
	}, series(t, n.Gather(), "nadra_attach_total"))
	n.Keep(func(namespace, name string) (string, bool) {
		return map[string]string{"a": "macvlan", "b": "macvlan"}[namespace], name == "blue"
	})
	same(t, "attaching networks that exist with the same type", []string{
		"macvlan,blue,a,error", "macvlan,blue,a,success", "macvlan,blue,a,transient",
	}, series(t, n.Gather(), "nadra_attach_total"))
	same(t, "detaching", []string{"macvlan,blue,a,error", "macvlan,blue,a,success"}, series(t, n.Gather(), "nadra_detach_total"))
	if n.Network("a", "blue", conf) != blue {
		t.Error("the metrics of a network that stays are recreated")
	}
	n.Keep(func(string, string) (string, bool) { return "", true }) // an unreadable NAD has no type
	same(t, "with a broken NAD", 3, len(series(t, n.Gather(), "nadra_attach_total")))
}

// Series with fixed label values exist from the start.
func TestSeriesBeginAtZero(t *testing.T) {
	n := NewNode()
	for name, want := range map[string][]string{
		"nadra_gate_containers_total":       {"held", "passed", "refused", "released"},
		"nadra_prepare_total":               {"error", "success"},
		"nadra_nri_hook_duration_seconds":   {"CreateContainer", "RemovePodSandbox", "RunPodSandbox", "StopPodSandbox", "Synchronize"},
		"nadra_pod_attach_duration_seconds": {"cancelled", "error", "success"},
	} {
		same(t, name, want, series(t, n.Gather(), name))
	}
}

// All managers of a controller's process share one registry, and a value that is not known
// has no series.
func TestController(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := NewController(registry)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewController(registry)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "expiry", 0, len(series(t, registry, "nadra_webhook_certificate_expiry_timestamp_seconds")))
	first.Pods("multus", 3)
	second.Pods("nadra", 4)
	second.CertificateExpires(time.Unix(1e9, 0))
	same(t, "pods", []string{"multus", "nadra"}, series(t, registry, "nadra_migration_pods"))
	same(t, "expiry", 1, len(series(t, registry, "nadra_webhook_certificate_expiry_timestamp_seconds")))
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "nadra_migration_pods", Help: "other"}))
	if _, err := NewController(other); err == nil || !strings.Contains(err.Error(), "nadra_migration_pods") {
		t.Errorf("a name that is in use: %v", err)
	}
}
