// Package metrics defines nadra's Prometheus metrics: Node for the driver on a node,
// Controller for the webhooks and the progress of the migration. docs/reference/metrics.md lists
// the same names, labels and values, which a test checks.
//
// There are two kinds of series. Methods of Node count events where they happen: because a
// pod's networks wait for them, they resolve labels once. A scrape reads the rest as a State.
//
// No label names a pod or a claim. Only counters name a NAD: one that this node has attached
// and that exists. Histograms have the plugin's type instead. Label values are fixed lists,
// and never a message.
//
// The package has no global registry: the driver has its own, and the controller uses that of
// controller-runtime.
package metrics
