// Package monitoring tests what manifests/monitoring and docs/operations.md say
// of nadra's metrics, against the handlers that serve them. Plainly: the page
// has every metric and no other, and alerts and dashboards name only what there
// is. With the build tag e2e (`make monitoring`), by Debian's Prometheus, which
// is unpacked into bin/ and not installed: promtool checks rules, configuration
// and every expression and tries each alert, and a real server scrapes, and
// fires.
//
// Debian has no Grafana: the dashboards are linted, and rendered by nobody.
package monitoring
