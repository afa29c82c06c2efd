// Package failpoint lets the fault suite end the driver at named points of its code, and
// switch off one of its guards to prove that the suite notices.
//
// With the tag, the functions look for files below Dir, which the suite writes on the node:
//
//	Dir/kill/<point>   the next process at this point removes the file and dies as by SIGKILL
//	Dir/off/<guard>    the guard is off while the file exists
package failpoint

// Dir is the directory of the suite's files, a path in the host.
const Dir = "/var/lib/nadra-failpoints"

// A Point is a place in the driver's code. There is one before and one after every write to
// disk, every run of a plugin and every reply.
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
	BeforeTake            Point = "take-sandbox.before"
	AfterTake             Point = "take-sandbox.after"
	BeforeReturn          Point = "return-sandbox.before"
	AfterReturn           Point = "return-sandbox.after"
)

// Points lists all points, for the suite to choose from.
var Points = []Point{
	BeforeRecordWrite, AfterRecordWrite, BeforeRecordDelete, AfterRecordDelete,
	BeforeCDIWrite, AfterCDIWrite, BeforeCDIRemove, AfterCDIRemove,
	BeforeAdd, AfterAdd, BeforeDel, AfterDel, BeforeStatusWrite, AfterStatusWrite,
	BeforePrepared, AfterPrepared, BeforeUnprepared, AfterUnprepared,
	BeforeSynchronized, AfterSynchronized, BeforeSandboxRun, AfterSandboxRun,
	BeforeContainerCreate, AfterContainerCreate, BeforeSandboxStop, AfterSandboxStop,
	BeforeSandboxRemove, AfterSandboxRemove,
	BeforeTake, AfterTake, BeforeReturn, AfterReturn,
}

// A Guard is a mechanism that keeps a pod from running without its network, or a node from
// leaking resources.
type Guard string

// The guards.
const (
	// Reference is Prepare's refusal of pods with a container that references no claim
	// with networks, and so has no gate.
	Reference Guard = "reference"
	// Gate is the OCI hook that containers get by CDI.
	Gate Guard = "gate"
	// UnprepareDEL is the DEL that Unprepare runs for records that need one.
	UnprepareDEL Guard = "unprepare-del"
)
