// Package probe defines the reports of nadra-node about a node, its pods, and what deleted pods and
// nadra left behind there, and parses files of nodes. Package nodecmd makes the reports.
package probe

import (
	"slices"
	"time"
)

// APIVersion and Kind are those of a Report. Within a version, fields are added, and never
// renamed or removed.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "NodeProbe"
)

// Report describes a node. All paths are the host's.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Kernel     string `json:"kernel,omitempty"`
	BootID     string `json:"bootID,omitempty"`
	NRI        NRI    `json:"nri"`
	// CDI are the directories from which the runtime reads CDI specs.
	CDI []Dir `json:"cdi"`
	// BinDirs are the directories of CNI plugins, in the order of the search.
	BinDirs []BinDir `json:"binDirs"`
	// ConfDirs are the directories of CNI configurations, the runtime's first.
	ConfDirs []ConfDir `json:"confDirs"`
	// Interfaces are the host's, sorted by name.
	Interfaces []Interface `json:"interfaces"`
	// DHCP: the daemon of the IPAM plugin dhcp has its socket.
	DHCP bool `json:"dhcp,omitempty"`
	// Errors lists what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// NRI describes the container runtime's NRI, as the probe finds it as a plugin.
type NRI struct {
	Socket string `json:"socket"`
	// Found: the socket exists.
	Found bool `json:"found"`
	// Answers: the runtime has configured the plugin.
	Answers        bool   `json:"answers"`
	Runtime        string `json:"runtime,omitempty"`
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// RequestTimeoutMillis is the time for which the runtime waits for a plugin.
	RequestTimeoutMillis int64  `json:"requestTimeoutMillis,omitempty"`
	Error                string `json:"error,omitempty"`
}

// RequestTimeout returns the time for which the runtime waits for a plugin.
func (n NRI) RequestTimeout() time.Duration {
	return time.Duration(n.RequestTimeoutMillis) * time.Millisecond
}

// Dir is a directory.
type Dir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// ReadOnly: the host cannot write to it. If the directory does not exist, it is about
	// the place where it would be.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// BinDir is a directory of CNI plugins.
type BinDir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Plugins are the names of executable files, sorted.
	Plugins []string `json:"plugins,omitempty"`
	// NotExecutable are the names of other files, sorted.
	NotExecutable []string `json:"notExecutable,omitempty"`
}

// ConfDir is a directory of CNI configurations.
type ConfDir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Files are the configurations, in the order in which a runtime reads them.
	Files []ConfFile `json:"files,omitempty"`
	// Others are the names of other entries, for example configurations that another CNI
	// has renamed, or Multus' folder, sorted.
	Others []string `json:"others,omitempty"`
}

// ConfFile is a CNI configuration.
type ConfFile struct {
	File string `json:"file"`
	// Network is the configuration's name.
	Network string `json:"network,omitempty"`
	// Plugins are the types in its chain.
	Plugins []string `json:"plugins,omitempty"`
	// Multus has Multus' settings, if the file is Multus'.
	Multus *MultusSettings `json:"multus,omitempty"`
	// Error is why it cannot be read.
	Error string `json:"error,omitempty"`
}

// Kinds of interfaces.
const (
	Physical = "physical"
	Bridge   = "bridge"
	Bond     = "bond"
	VLAN     = "vlan"
	Virtual  = "virtual" // any other without a device
)

// Interface is an interface of the host.
type Interface struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// AltNames are other names by which a configuration may refer to it.
	AltNames []string `json:"altNames,omitempty"`
	// DefaultRoute: the host's default route uses it.
	DefaultRoute bool `json:"defaultRoute,omitempty"`
}

// HasPlugin reports whether the node has an executable CNI plugin of a name.
func (r *Report) HasPlugin(name string) bool {
	return slices.ContainsFunc(r.BinDirs, func(d BinDir) bool { return slices.Contains(d.Plugins, name) })
}

// HasInterface reports whether the host has an interface of a name.
func (r *Report) HasInterface(name string) bool {
	return slices.ContainsFunc(r.Interfaces, func(i Interface) bool {
		return i.Name == name || slices.Contains(i.AltNames, name)
	})
}
