package cniexec

import (
	"errors"

	"github.com/containernetworking/cni/pkg/types"
)

// inside are the plugins that change nothing but what is in the pod's network
// namespace, and whose DEL fails where there is none, as they open it before all
// else. sbr's does (v1.9.1, and all releases before); of the other reference
// plugins each succeeds or has something to do on the host. A name may be here
// only when its source was read.
var inside = map[string]bool{"sbr": true}

// nothingLeft reports whether a plugin's DEL, which has failed where the network
// namespace is gone, had nothing to do any more: what it undoes went with the
// namespace. Held against it, it would fail for ever, and keep libcni from the
// plugins before it in the chain. Only what the plugin says itself counts: one
// that was killed, or not found, has said nothing.
func nothingLeft(plugin string, err error) bool {
	return inside[plugin] && errors.As(err, new(*types.Error))
}
