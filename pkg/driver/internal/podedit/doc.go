// Package podedit decides what an edit of a running pod's networks annotation changes: which
// attachments end, which begin, with which interface, and in which order network-status lists
// all of them. It acts on nothing.
package podedit
