//go:build failpoints

package failpoint

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// hostRoot is the path of the host's root in the driver's container, as in manifests/base.
const hostRoot = "/host"

// replyTime is about the time from the end of a handler until its reply is sent. No code can
// run after that.
const replyTime = 2 * time.Millisecond

// exitStatus is the status of a killed process.
const exitStatus = 128 + 9

// Reach ends the process if the suite has written the point's file. It ends at once, as by
// SIGKILL, which the first process of a container cannot send to itself.
func Reach(p Point) {
	if os.Remove(filepath.Join(hostRoot, Dir, "kill", string(p))) == nil {
		syscall.Exit(exitStatus)
	}
}

// Soon calls Reach after the caller's reply was sent.
func Soon(p Point) {
	time.AfterFunc(replyTime, func() { Reach(p) })
}

// Off reports whether the suite has switched a guard off.
func Off(g Guard) bool {
	_, err := os.Stat(filepath.Join(hostRoot, Dir, "off", string(g)))
	return err == nil
}
