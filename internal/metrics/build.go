package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nadra-dev/nadra/internal/version"
)

// buildInfo returns a gauge that is always 1 and has the facts in its labels.
func buildInfo() prometheus.Collector {
	info := version.Get()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nadra_build_info", Help: "The version of the running program, in labels.",
		ConstLabels: prometheus.Labels{
			"version": info.Version, "revision": cmp.Or(info.Commit, "unknown"), "go_version": cmp.Or(info.Go, "unknown"),
		},
	}, func() float64 { return 1 })
}
