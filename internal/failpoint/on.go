//go:build failpoints

package failpoint

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// hostRoot is where the driver's container has the host, as in manifests/base.
const hostRoot = "/host"

// replyTime is about how long a reply takes to be sent once its handler has
// returned; nothing can be called after it.
const replyTime = 2 * time.Millisecond

// exitStatus is that of a process that was killed.
const exitStatus = 128 + 9

// Reach ends the process when the suite has ordered so: at once, as SIGKILL
// would, which the first process of a container cannot send to itself.
func Reach(p Point) {
	if os.Remove(filepath.Join(hostRoot, Dir, "kill", string(p))) == nil {
		syscall.Exit(exitStatus)
	}
}

// Soon is Reach for the moment after the caller's reply was sent.
func Soon(p Point) {
	time.AfterFunc(replyTime, func() { Reach(p) })
}

// Off reports whether the suite has switched a guard off.
func Off(g Guard) bool {
	_, err := os.Stat(filepath.Join(hostRoot, Dir, "off", string(g)))
	return err == nil
}
