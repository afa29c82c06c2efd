package doctor

import (
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// The components whose versions are checked. Those of runtimes are their names in a node's status.
const (
	kubernetesName = "Kubernetes"
	containerd     = "containerd"
	crio           = "cri-o"
	linuxOS        = "Linux"
)

const (
	upgradeKubernetes = "Upgrade to Kubernetes 1.34 or later; 1.36 or later is better."
	mendTheLeak       = "Upgrade containerd to 2.2.6, 2.3.3 or 2.4, or to a later patch of these."
	leaks             = "leaves a sandbox's process and its record behind when nadra refuses the sandbox, and may not start again after many"
)

// versionProblem is a problem of versions of a component.
type versionProblem struct {
	component string
	// from is the first version with the problem, and before the first later one without it.
	from, before string
	status       translate.Severity
	what, do     string
}

// versionProblems are the known ones. docs/reference/support.md has the same ranges, with what was tested.
var versionProblems = []versionProblem{
	{kubernetesName, "0.0", "1.34", blocker, "is older than 1.34", upgradeKubernetes},
	{containerd, "0.0", "1.7", blocker, "has no NRI", mendTheLeak},
	{containerd, "1.7", "2.0", warning, leaks + "; NRI is off by default", mendTheLeak},
	{containerd, "2.0", "2.2.6", warning, leaks, mendTheLeak},
	{containerd, "2.3", "2.3.3", warning, leaks, mendTheLeak},
	{crio, "0.0", "1.36", warning, "is older than 1.36, and nadra's tests do not cover it", "Test one pod of each kind before you move workloads."},
	{
		linuxOS, "0.0", "5.14", blocker, "is older than 5.14",
		"Upgrade the kernel to 5.14 or later, or test whether the distribution has backported SO_NETNS_COOKIE.",
	},
}

// judgeVersion returns the finding for a version of a component, which shown names. remedy is for text
// that is not a version.
func judgeVersion(component, text, shown, remedy string) result {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return found(Unknown, remedy, "%q is not a version of %s", text, component)
	}
	for _, p := range versionProblems {
		if p.component == component && v.AtLeast(version.MustParseGeneric(p.from)) && v.LessThan(version.MustParseGeneric(p.before)) {
			return found(p.status, p.do, "%s %s", shown, p.what)
		}
	}
	return fine("%s", shown)
}

// hasSharedDevices reports whether a version of Kubernetes lets many pods share a device unless that is
// switched off.
func hasSharedDevices(text string) bool {
	v, err := version.ParseGeneric(text)
	return err != nil || v.AtLeast(version.MustParseGeneric("1.36"))
}
