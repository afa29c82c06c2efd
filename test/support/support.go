// Package support lists what nadra runs on: the versions of Kubernetes, of container runtimes
// and of kernels, with what is known about each, and the test lanes that show it. The tables of
// docs/reference/support.md and docs/install/runtimes.md are generated from it.
package support

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Component is a part of a cluster, by the name that pages give it.
type Component string

// The components whose versions doctor checks, or the lanes pin or report.
const (
	Kubernetes Component = "Kubernetes"
	Emulated   Component = "emulated" // by a newer control plane
	Kubelet    Component = "kubelet"  // of a newer control plane
	Containerd Component = "containerd"
	CRIO       Component = "CRI-O"
	NRI        Component = "NRI"
	Runc       Component = "runc"
	// OtherRuntime is every container runtime but containerd and CRI-O.
	OtherRuntime Component = "Docker (cri-dockerd) and others"
	Linux        Component = "Linux"

	CgroupV1     Component = "cgroup v1"
	CgroupV2     Component = "cgroup v2"
	IPv6         Component = "nodes, services and pods with IPv6 only"
	DualStack    Component = "nodes, services and pods with IPv4 and IPv6"
	ReadOnlyRoot Component = "a read-only root, the directories elsewhere"
)

// Status is what the project says about a row that no lane has shown to work. A row is
// tested if a lane has; test/docs decides that by the versions that the lanes run.
type Status string

// The statuses.
const (
	Expected     Status = "expected"
	NotSupported Status = "not supported"
	NotTried     Status = "not tried"
)

// Row describes the versions of a component that nadra treats alike.
type Row struct {
	Component Component
	// From is the first version, and Before the first later one that is not meant. Without
	// From all older versions are meant, and without Before all later ones. Without both,
	// the component has no version that counts.
	From, Before string
	Status       Status
	// Remark is Markdown.
	Remark string
	// Lanes are the make targets that run the row.
	Lanes []string
	// Doctor is the status that doctor gives to the versions, unless it is ok.
	Doctor string
	// NRI and CDI are a runtime's defaults, and Differences its behaviour that differs.
	NRI, CDI, Differences string
}

// Find returns the first row of a component that has a version. It returns false if text is
// not a version.
func Find(component Component, text string) (Row, bool) {
	for _, row := range table() {
		if row.Component == component && row.Has(text) {
			return row, true
		}
	}
	return Row{}, false
}

// OfRuntime returns the component of a runtime's name in a node's status.
func OfRuntime(name string) Component {
	switch name {
	case "containerd":
		return Containerd
	case "cri-o":
		return CRIO
	}
	return OtherRuntime
}

// Has reports whether the row has a version.
func (r Row) Has(text string) bool {
	if r.From == "" && r.Before == "" {
		return true
	}
	v, err := version.ParseGeneric(text)
	return err == nil && (r.From == "" || v.AtLeast(parse(r.From))) && (r.Before == "" || v.LessThan(parse(r.Before)))
}

// Name returns the component with the row's versions: "containerd 2.3.0 to 2.3.2".
func (r Row) Name() string {
	return strings.TrimSpace(fmt.Sprint(r.Component, " ", r.versions()))
}

// versions describes the row's versions.
func (r Row) versions() string {
	switch {
	case r.From == "" && r.Before == "":
		return ""
	case r.From == "":
		return "before " + r.Before
	case r.Before == "":
		return r.From + " and later"
	}
	from, before := parse(r.From), parse(r.Before)
	if before.Patch() > 0 {
		return fmt.Sprintf("%s to %d.%d.%d", r.From, before.Major(), before.Minor(), before.Patch()-1)
	}
	if from.Major() == before.Major() && from.Minor()+1 < before.Minor() {
		return fmt.Sprintf("%s to %d.%d", r.From, before.Major(), before.Minor()-1)
	}
	if from.Patch() > 0 {
		return fmt.Sprintf("%s or a later %d.%d", r.From, from.Major(), from.Minor())
	}
	return r.From
}

// parse parses a version of the table, which has two numbers or three.
func parse(text string) *version.Version {
	if strings.Count(text, ".") == 1 {
		text += ".0"
	}
	return version.MustParseGeneric(text)
}
