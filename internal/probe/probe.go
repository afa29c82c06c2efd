// Package probe is what a look at one node from inside of it gives, and what
// can be read out of the node's files. Package host beside it looks.
package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// APIVersion and Kind are those of a Report. Fields are added within a version,
// never renamed or removed.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "NodeProbe"
)

// Report is one look at one node. All paths are the host's.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Kernel     string `json:"kernel,omitempty"`
	BootID     string `json:"bootID,omitempty"`
	NRI        NRI    `json:"nri"`
	// CDI are the directories that the runtime reads CDI specs from.
	CDI []Dir `json:"cdi"`
	// BinDirs are those of CNI plugins, in the order of the search.
	BinDirs []BinDir `json:"binDirs"`
	// ConfDirs have CNI configurations, the runtime's directory first.
	ConfDirs []ConfDir `json:"confDirs"`
	// Interfaces are the host's, sorted by name.
	Interfaces []Interface `json:"interfaces"`
	// HostLocal is the state of the IPAM plugin host-local, sorted by network.
	HostLocal []Leases `json:"hostLocal,omitempty"`
	// DHCP says that the daemon of the IPAM plugin dhcp has its socket there.
	DHCP bool `json:"dhcp,omitempty"`
	// Errors are what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// NRI is what the runtime's end of NRI says to a plugin that knocks.
type NRI struct {
	Socket string `json:"socket"`
	// Found says that the socket is there.
	Found bool `json:"found"`
	// Answers says that the runtime has greeted the plugin.
	Answers        bool   `json:"answers"`
	Runtime        string `json:"runtime,omitempty"`
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// RequestTimeoutMillis is how long the runtime waits for a plugin.
	RequestTimeoutMillis int64  `json:"requestTimeoutMillis,omitempty"`
	Error                string `json:"error,omitempty"`
}

// RequestTimeout is how long the runtime waits for a plugin.
func (n NRI) RequestTimeout() time.Duration {
	return time.Duration(n.RequestTimeoutMillis) * time.Millisecond
}

// Dir is a directory.
type Dir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// ReadOnly says that the host itself could not write to it. Where the
	// directory is not there, it is about the place where it would be.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// BinDir is a directory of CNI plugins.
type BinDir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Plugins are the names of the files that can be executed, sorted.
	Plugins []string `json:"plugins,omitempty"`
	// NotExecutable are the names of the other files, sorted.
	NotExecutable []string `json:"notExecutable,omitempty"`
}

// ConfDir is a directory of CNI configurations.
type ConfDir struct {
	Path  string `json:"path"`
	Found bool   `json:"found"`
	// Files are the configurations, in the order in which a runtime looks.
	Files []ConfFile `json:"files,omitempty"`
	// Others are the names of what else is there, e.g. configurations that
	// another CNI has renamed, or Multus' folder; sorted.
	Others []string `json:"others,omitempty"`
}

// ConfFile is a CNI configuration.
type ConfFile struct {
	File string `json:"file"`
	// Network is the configuration's name.
	Network string `json:"network,omitempty"`
	// Plugins are the types of its chain.
	Plugins []string `json:"plugins,omitempty"`
	// Multus are the settings of Multus in it, if it is for Multus.
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
	Virtual  = "virtual" // any other that has no device
)

// Interface is one of the host's.
type Interface struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// AltNames are other names that a configuration may call it by.
	AltNames []string `json:"altNames,omitempty"`
	// DefaultRoute says that the host's own way out goes through it.
	DefaultRoute bool `json:"defaultRoute,omitempty"`
}

// Leases are the addresses that host-local has given out of a network.
type Leases struct {
	Network   string `json:"network"`
	Addresses int    `json:"addresses"`
}

// Decode finds the report in what the probing pod has written. Standard error
// is in it, too: a report is one line that begins as one.
func Decode(log []byte) (*Report, error) {
	for line := range bytes.Lines(log) {
		if !bytes.HasPrefix(line, []byte(`{"apiVersion"`)) {
			continue
		}
		var r Report
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the probe's report: %w", err)
		}
		if r.APIVersion != APIVersion || r.Kind != Kind {
			return nil, fmt.Errorf("reading the probe's report: it is %s %s, not %s %s", r.APIVersion, r.Kind, APIVersion, Kind)
		}
		return &r, nil
	}
	if said := bytes.TrimSpace(log); len(said) > 0 {
		return nil, fmt.Errorf("reading the probe's report: there is none; the pod said: %.300s", said)
	}
	return nil, errors.New("reading the probe's report: the pod said nothing")
}

// HasPlugin reports whether a CNI plugin can be executed.
func (r *Report) HasPlugin(name string) bool {
	return slices.ContainsFunc(r.BinDirs, func(d BinDir) bool { return slices.Contains(d.Plugins, name) })
}

// HasInterface reports whether the host has an interface of a name.
func (r *Report) HasInterface(name string) bool {
	return slices.ContainsFunc(r.Interfaces, func(i Interface) bool {
		return i.Name == name || slices.Contains(i.AltNames, name)
	})
}
