// Package operations is the only way from the driver to CNI plugins. Every operation on a pod
// (attach, detach, edit, CHECK, pending DEL, sweep) is run by a Group, and every call of a plugin
// passes it.
package operations
