// Package metrics has all that nadra tells Prometheus: Node for the driver on a
// node, Controller for the webhooks and what counts the migration. Names,
// labels and their values are here and in docs/operations.md, and a test keeps
// the two the same.
//
// Two kinds of series, by what they cost. Events are counted where they happen,
// by methods of Node: a pod's networks wait for them, and so labels are resolved
// once. What is so at a moment is a State, which is asked for when somebody
// scrapes.
//
// No label has a pod or a claim. What a network is attached by has the names of
// the NAD, in counters only; they are those that this node has attached, and go
// when the NAD goes. Histograms have the type of the plugin instead.
//
// There is no registry of the package's own making that is global: the driver
// has one, the controller is given that of controller-runtime.
package metrics
