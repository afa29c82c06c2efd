// Package attach attaches sandboxes to networks by running CNI plugins, and detaches
// them:
//
//	attacher.go      ADD in order, rollback, another try after transient failures
//	del.go           DEL in reverse order, and when a failing DEL becomes a pending DEL
//	delretry.go      retries pending DELs
//	defaultroute.go  moves the pod's default route, and back
//	live.go          ADD in a sandbox whose containers run
//	limits.go        time limits of ADD and DEL
package attach
