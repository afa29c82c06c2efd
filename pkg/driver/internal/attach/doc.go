// Package attach attaches sandboxes to networks by running CNI plugins, and detaches
// them:
//
//	attacher.go      ADD in order, rollback, another try after transient failures
//	mayadd.go        when an ADD may begin
//	del.go           DEL in reverse order, which DELs would harm another network of a running pod, and
//	                 when a DEL becomes a pending DEL
//	delretry.go      retries pending DELs
//	defaultroute.go  moves the pod's default route, and back
//	settle.go        waits for duplicate address detection
//	live.go          ADD in a sandbox whose containers run
package attach
