// Package operations is the only way from the driver to CNI plugins. Every operation on a pod
// (attach, detach, edit, CHECK, pending DEL, sweep) is run by a Group, and every call of a plugin
// passes it:
//
//	group.go     operations: the pod's lock, the time limit, and what a stop of the driver waits for
//	calls.go     calls of plugins: the limit of each, and a few workers for each plugin
//	locks.go     one operation on a pod at a time
//	limits.go    time limits of ADD and DEL
//	inflight.go  counts operations that run
package operations
