package cniexec

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
)

// inside are the plugins that change only the pod's network namespace, and whose DEL fails
// without one because they open it first. sbr does (v1.9.1 and all earlier releases). The
// DEL of each other reference plugin succeeds, or has something to do on the host. Add a
// name only after reading the plugin's source.
var inside = map[string]bool{"sbr": true}

// nothingLeft reports whether a plugin's DEL that failed without a network namespace had
// nothing to do: what it undoes was in the namespace. Such a DEL would fail for ever and
// keep libcni from running the plugins before it in the chain. Only an error that the
// plugin itself returned counts, not that it was killed or not found.
func nothingLeft(plugin string, err error) bool {
	return inside[plugin] && errors.As(err, new(*types.Error))
}

// byPath are the plugins whose DEL finds on the host what their ADD made there by the path of the network namespace, and
// succeeds if nothing is at that path any more. ovs does (ovs-cni 19262a0c): with another path, or none, it leaves its
// port in the bridge. Add a name only after reading the plugin's source.
var byPath = map[string]bool{"ovs": true}

// withPath returns the environment of a plugin's DEL whose network namespace is no longer at its path. Plugins that go
// by the path get it all the same, unless they have to take a device out of the namespace.
func (e *hostExec) withPath(plugin string, stdin []byte, environ []string) []string {
	var config struct {
		DeviceID string `json:"deviceID"`
	}
	if e.path == "" || !byPath[plugin] || json.Unmarshal(stdin, &config) != nil || config.DeviceID != "" {
		return environ
	}
	return append(slices.Clone(environ), "CNI_NETNS="+e.path) // the last one counts
}
