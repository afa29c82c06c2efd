package probe

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// MultusSettings has the keys of Multus for which nadra has an equivalent, or must report
// that it has none. A key that is not set has Multus' default.
type MultusSettings struct {
	NamespaceIsolation bool `json:"namespaceIsolation,omitempty"`
	// GlobalNamespaces is a comma-separated list.
	GlobalNamespaces      string   `json:"globalNamespaces,omitempty"`
	DefaultNetworks       []string `json:"defaultNetworks,omitzero"`
	SystemNamespaces      []string `json:"systemNamespaces,omitzero"`
	ClusterNetwork        string   `json:"clusterNetwork,omitempty"`
	MultusNamespace       string   `json:"multusNamespace,omitempty"`
	ConfDir               string   `json:"confDir,omitempty"`
	BinDir                string   `json:"binDir,omitempty"`
	AuxiliaryCNIChainName string   `json:"auxiliaryCNIChainName,omitempty"`
	// Delegates counts the networks in the configuration itself. The first is the default
	// network, and Multus attaches the others to every pod.
	Delegates int `json:"delegates,omitempty"`
}

// ParseMultusSettings parses Multus' CNI configuration, or the daemon's.
func ParseMultusSettings(config []byte) (*MultusSettings, error) {
	type settings MultusSettings // without the count of delegates, which are objects
	var in struct {
		settings
		Delegates []json.RawMessage `json:"delegates"`
	}
	// Multus itself rejects values of another type.
	if err := json.Unmarshal(config, &in); err != nil {
		return nil, err
	}
	out := MultusSettings(in.settings)
	out.Delegates = len(in.Delegates)
	return &out, nil
}

// Over returns the settings of first with s over them, as the daemon's settings override
// the shim's.
func (s *MultusSettings) Over(first *MultusSettings) *MultusSettings {
	switch {
	case s == nil:
		return first
	case first == nil:
		return s
	}
	out := *first
	// Decoding would write into the arrays of first.
	out.DefaultNetworks, out.SystemNamespaces = slices.Clone(out.DefaultNetworks), slices.Clone(out.SystemNamespaces)
	text, _ := json.Marshal(s) // never fails
	_ = json.Unmarshal(text, &out)
	return &out
}

// ParseConf parses a CNI configuration, a list or a single plugin.
func ParseConf(name string, content []byte) ConfFile {
	out := ConfFile{File: name}
	type plugin struct {
		Type string `json:"type"`
	}
	var conf struct {
		plugin
		Name    string            `json:"name"`
		Plugins []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(content), &conf); err != nil {
		out.Error = err.Error()
		return out
	}
	out.Network = conf.Name
	raw := conf.Plugins
	if raw == nil {
		raw = []json.RawMessage{content}
	}
	for _, one := range raw {
		var p plugin
		if err := json.Unmarshal(one, &p); err != nil {
			out.Error = err.Error()
			return out
		}
		out.Plugins = append(out.Plugins, p.Type)
		if IsMultus(p.Type) {
			settings, err := ParseMultusSettings(one)
			if err != nil {
				out.Error = err.Error()
			}
			out.Multus = settings
		}
	}
	return out
}

// IsMultus reports whether a plugin's type is Multus', of the plugin itself or of the thick
// plugin's shim.
func IsMultus(plugin string) bool { return plugin == "multus" || plugin == "multus-shim" }

// ReadOnly reports whether the path is on a read-only file system, by the host's mountinfo.
func ReadOnly(mountinfo []byte, path string) bool {
	best, readOnly := -1, false
	for line := range strings.Lines(string(mountinfo)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		// The last of several mounts at one place counts.
		if point := fields[4]; below(path, point) && len(point) >= best {
			best, readOnly = len(point), slices.Contains(strings.Split(fields[5], ","), "ro")
		}
	}
	return readOnly
}

// below reports whether path is dir, or in it.
func below(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// MultusReport is what a node has of Multus.
type MultusReport struct {
	// Sandboxes and Networks are those that Multus has attached, and that exist.
	Sandboxes int `json:"sandboxes"`
	Networks  int `json:"networks"`
	// Gone is the number of sandboxes that do not exist any more. Their DELs are due.
	Gone int `json:"gone"`
	// Missing are interfaces that Multus has attached and that the pod's namespace lacks, as
	// namespace/name of the pod and interface. A device that a program uses without the kernel's
	// driver is one of them.
	Missing []string `json:"missing,omitempty"`
}

// MultusConfReport lists the configurations.
type MultusConfReport struct {
	// Moved are the files that were taken away or given back, sorted.
	Moved []string `json:"moved"`
	// Left are the configurations that the runtime has now, sorted. It uses the
	// first.
	Left []string `json:"left"`
}
