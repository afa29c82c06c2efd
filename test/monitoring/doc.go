// Package monitoring tests manifests/monitoring and the metrics in docs/reference/metrics.md
// against the handlers that serve them. Without a build tag: the page has every metric and
// no other, and alerts and dashboards use only existing metrics. With the build tag e2e
// (`make monitoring`), by Debian's Prometheus, which is unpacked into bin/ and not
// installed: promtool checks rules, configuration and every expression and tries each
// alert, and a real server scrapes, and fires. doc.go is the only file that is not a test.
//
// Debian has no Grafana, so the dashboards are linted, but not rendered.
package monitoring
