// Package chart holds the Helm chart to the kustomize overlays: with the value
// of its mode it is the overlay of that name, object for object. It is a module
// of its own, as Helm's library is large and nadra has no use for it.
package chart
