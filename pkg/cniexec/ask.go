package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Status asks the plugins of a conflist, in order, whether they could serve an ADD now
// (CNI specification 1.1.0, § "STATUS"). It returns the error of the first plugin that
// could not: with the plugin's name and, in a *types.Error, its message. It asks nothing
// if the conflist has an earlier version, and skips plugins without this verb.
//
// Status concerns no sandbox and changes nothing, so it does not hold GC back.
func (r *Runner) Status(ctx context.Context, conflist json.RawMessage) error {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return invalidConflist(err)
	}
	if known, err := speaks(list, "1.1.0"); err != nil || !known {
		return err
	}
	return r.asking(&optional{hostExec: r.exec, verb: "STATUS"}).GetStatusNetworkList(ctx, list)
}

// Check asks the plugins of the chain whether an attachment is still as ADD made it
// (§ "CHECK"), and returns the error of the first plugin that finds a difference, as
// Status does. It changes nothing. It asks nothing if HasCheck reports false, and skips
// plugins that do not implement CHECK or whose IPAM plugin does not (whereabouts 0.8, for
// example); unchecked has their names.
//
// result is what ADD returned, as JSON. Plugins get it as prevResult in the conflist's
// version. libcni's cache is not used.
func (r *Runner) Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error) {
	if r.isHost(s.NetNS) {
		return nil, errHostNetwork
	}
	list, err := libcni.NetworkConfFromBytes(a.Conflist)
	if err != nil {
		return nil, invalidConflist(err)
	}
	if known, err := hasCheck(list); err != nil || !known {
		return nil, err
	}
	prev, err := resultAs(list.CNIVersion, result)
	if err != nil {
		return nil, fmt.Errorf("converting the result of ADD to version %s: %w", list.CNIVersion, err)
	}
	if err := setPrevResult(list, prev); err != nil {
		return nil, fmt.Errorf("adding the result to the conflist: %w", err)
	}
	r.running.RLock()
	defer r.running.RUnlock()
	plugins := &optional{hostExec: r.exec, verb: "CHECK"}
	err = r.asking(plugins).CheckNetworkList(ctx, list, r.runtimeConf(s, a))
	return plugins.lacking, err
}

// HasCheck reports whether Check asks anything for this attachment: its
// conflist is of version 0.4.0 or later and has no disableCheck.
func (r *Runner) HasCheck(a attachment.Attachment) bool {
	list, err := libcni.NetworkConfFromBytes(a.Conflist)
	if err != nil {
		return true // Check returns the error
	}
	known, err := hasCheck(list)
	return known || err != nil
}

// hasCheck reports whether Check asks the plugins of a conflist.
func hasCheck(list *libcni.NetworkConfigList) (bool, error) {
	known, err := speaks(list, "0.4.0")
	return known && !list.DisableCheck, err
}

// invalidConflist returns the error for a conflist that cannot be read.
func invalidConflist(err error) error {
	return reason.Errorf(reason.NetworkInvalid, "reading the conflist: %w", err)
}

// speaks reports whether the list is of this version or a later one.
func speaks(list *libcni.NetworkConfigList, since string) (bool, error) {
	known, err := version.GreaterThanOrEqualTo(list.CNIVersion, since)
	if err != nil {
		return false, invalidConflist(err)
	}
	return known, nil
}

// asking returns a libcni for a verb that plugins need not know. Its cache is empty, so
// it has no attachments to delete in a GC and no prevResult of its own for a CHECK.
func (r *Runner) asking(plugins *optional) *libcni.CNIConfig {
	noCache := filepath.Join(r.cacheDir, "none")
	return libcni.NewCNIConfigWithCacheDir(r.dirs, noCache, plugins)
}

// optional runs plugins for a verb that they need not know.
type optional struct {
	*hostExec
	verb string
	// lacking are the names of the plugins that do not know the verb.
	lacking []string
}

// ExecPlugin runs one plugin and ignores an error that means that the plugin does not
// know the verb. It adds the plugin's name to other errors, as libcni does for ADD, DEL
// and GC only.
func (e *optional) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	out, err := e.hostExec.ExecPlugin(ctx, path, stdin, environ)
	switch {
	case err == nil:
		return out, nil
	case lacksVerb(err, e.verb):
		e.lacking = append(e.lacking, filepath.Base(path))
		return nil, nil
	case e.verb == "GC":
		return nil, err
	}
	return nil, fmt.Errorf("plugin type=%q failed (%s): %w", filepath.Base(path), strings.ToLower(e.verb), err)
}

// lacksVerb reports whether a plugin's error means that the plugin does not know the
// verb. The answers differ:
//
//   - Plugins built with the CNI project's skeleton (pkg/skel/skel.go) return "unknown
//     CNI_COMMAND: GC" with code 4, or with code 100 if they are old.
//   - If the skeleton knows the verb and the plugin supports no version that has it, they
//     return "plugin version does not allow GC" with code 1. A plugin that supports the
//     version without a function for the verb succeeds.
//   - Other plugins have a function that only returns an error, with a code for any
//     failure: "CNI CHECK method is not implemented" (whereabouts 0.8, code 999, also
//     through the plugin that delegates to it), or "not implemented" (the CNI project's
//     sample, from which others were made).
func lacksVerb(err error, verb string) bool {
	var reported *types.Error
	if !errors.As(err, &reported) {
		return false
	}
	text := strings.ToLower(reported.Msg + " " + reported.Details)
	if strings.Contains(text, "not implemented") || strings.Contains(text, "not supported") && strings.Contains(text, strings.ToLower(verb)) {
		return true
	}
	return reported.Code == types.ErrInvalidEnvironmentVariables && strings.Contains(reported.Msg, "CNI_COMMAND") ||
		strings.Contains(reported.Msg, "unknown CNI_COMMAND") ||
		reported.Code == types.ErrIncompatibleCNIVersion
}
