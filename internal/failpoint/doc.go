// Package failpoint lets the fault suite end the driver at named places of its
// own code, and switch off one of its guards to prove that the suite sees it.
//
// In an ordinary build every function here is empty and inlined away. With the
// build tag "failpoints" (`make faults`) they look at files below Dir, which
// the suite writes on the node:
//
//	Dir/kill/<point>   the next to reach this point removes the file and dies as by SIGKILL
//	Dir/off/<guard>    this guard is off for as long as the file is there
package failpoint

// Dir is where the suite's orders are, a path in the host.
const Dir = "/var/lib/nadra-failpoints"

// A Point is a place in the driver's code. There is one before and one after
// every persistent write, every run of a plugin and every reply.
type Point string

// The points.
const (
	BeforeRecordWrite     Point = "record-write.before"
	AfterRecordWrite      Point = "record-write.after"
	BeforeRecordDelete    Point = "record-delete.before"
	AfterRecordDelete     Point = "record-delete.after"
	BeforeCDIWrite        Point = "cdi-write.before"
	AfterCDIWrite         Point = "cdi-write.after"
	BeforeCDIRemove       Point = "cdi-remove.before"
	AfterCDIRemove        Point = "cdi-remove.after"
	BeforeAdd             Point = "add.before"
	AfterAdd              Point = "add.after"
	BeforeDel             Point = "del.before"
	AfterDel              Point = "del.after"
	BeforeStatusWrite     Point = "status-write.before"
	AfterStatusWrite      Point = "status-write.after"
	BeforePrepared        Point = "prepare-reply.before"
	AfterPrepared         Point = "prepare-reply.after"
	BeforeUnprepared      Point = "unprepare-reply.before"
	AfterUnprepared       Point = "unprepare-reply.after"
	BeforeSynchronized    Point = "synchronize-reply.before"
	AfterSynchronized     Point = "synchronize-reply.after"
	BeforeSandboxRun      Point = "run-sandbox-reply.before"
	AfterSandboxRun       Point = "run-sandbox-reply.after"
	BeforeContainerCreate Point = "create-container-reply.before"
	AfterContainerCreate  Point = "create-container-reply.after"
	BeforeSandboxStop     Point = "stop-sandbox-reply.before"
	AfterSandboxStop      Point = "stop-sandbox-reply.after"
	BeforeSandboxRemove   Point = "remove-sandbox-reply.before"
	AfterSandboxRemove    Point = "remove-sandbox-reply.after"
)

// Points are all of them, for the suite to draw from.
var Points = []Point{
	BeforeRecordWrite, AfterRecordWrite, BeforeRecordDelete, AfterRecordDelete,
	BeforeCDIWrite, AfterCDIWrite, BeforeCDIRemove, AfterCDIRemove,
	BeforeAdd, AfterAdd, BeforeDel, AfterDel, BeforeStatusWrite, AfterStatusWrite,
	BeforePrepared, AfterPrepared, BeforeUnprepared, AfterUnprepared,
	BeforeSynchronized, AfterSynchronized, BeforeSandboxRun, AfterSandboxRun,
	BeforeContainerCreate, AfterContainerCreate, BeforeSandboxStop, AfterSandboxStop,
	BeforeSandboxRemove, AfterSandboxRemove,
}

// A Guard is one of the things that keep a pod from running without its
// network, or a node from leaking.
type Guard string

// The guards (design D4) and the DEL of last resort (design D7).
const (
	// Reference is Prepare's refusal of pods with a container that no claim
	// brings the gate to.
	Reference Guard = "reference"
	// Gate is the OCI hook that claims bring by CDI.
	Gate Guard = "gate"
	// UnprepareDEL is the DEL that Unprepare runs when one is owed.
	UnprepareDEL Guard = "unprepare-del"
)
