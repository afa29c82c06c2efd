// Package chart tests that the Helm chart and the kustomize overlays agree: the chart's
// mode renders the same objects as the overlay of that name. It is a module of its own,
// because Helm's library is large and nadra does not use it. doc.go is the only file that
// is not a test.
package chart
