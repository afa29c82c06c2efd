package cniexec

import (
	"errors"

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
