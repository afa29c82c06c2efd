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

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Status asks the plugins of a conflist, in order, whether they could serve an
// ADD now (CNI specification 1.1.0, § "STATUS"), and returns the first that
// says no: its name and, in a *types.Error, its own words. It is nothing for a
// conflist of an earlier version, and a plugin that does not know the verb.
//
// It concerns no sandbox and changes nothing, and so does not hold GC back.
func (r *Runner) Status(ctx context.Context, conflist json.RawMessage) error {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return fmt.Errorf("reading the conflist: %w", err)
	}
	if known, err := speaks(list, "1.1.0"); err != nil || !known {
		return err
	}
	return r.asking(&optional{hostExec: r.exec, verb: "STATUS"}).GetStatusNetworkList(ctx, list)
}

// Check asks the plugins of the chain whether an attachment is still as ADD has
// made it (§ "CHECK"), and returns the error of the first that says no, as Status
// does. It changes nothing. It asks nothing where HasCheck reports false, and
// passes over plugins that implement no CHECK, or whose IPAM plugin implements
// none (whereabouts 0.8, for example); unchecked has their names.
//
// result is what ADD returned, as JSON. Plugins get it as prevResult, in the
// conflist's version; what libcni has in its cache does not matter.
func (r *Runner) Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error) {
	if r.isHost(s.NetNS) {
		return nil, ErrHostNetwork
	}
	list, err := libcni.NetworkConfFromBytes(a.Conflist)
	if err != nil {
		return nil, fmt.Errorf("reading the conflist: %w", err)
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
		return true // Check says why not
	}
	known, err := hasCheck(list)
	return known || err != nil
}

func hasCheck(list *libcni.NetworkConfigList) (bool, error) {
	known, err := speaks(list, "0.4.0")
	return known && !list.DisableCheck, err
}

// speaks reports whether the list is of this version or a later one.
func speaks(list *libcni.NetworkConfigList, since string) (bool, error) {
	known, err := version.GreaterThanOrEqualTo(list.CNIVersion, since)
	if err != nil {
		return false, fmt.Errorf("reading the conflist: %w", err)
	}
	return known, nil
}

// asking is libcni for a verb that plugins need not know. It has no cache, and
// so neither attachments to delete in a GC nor a prevResult of its own for a
// CHECK.
func (r *Runner) asking(plugins *optional) *libcni.CNIConfig {
	noCache := filepath.Join(r.cacheDir, "none")
	return libcni.NewCNIConfigWithCacheDir(r.dirs, noCache, plugins)
}

// optional runs plugins for a verb that they need not know.
type optional struct {
	*hostExec
	verb string
	// lacking are the names of the plugins that do not know it.
	lacking []string
}

// ExecPlugin runs one plugin; that it does not know the verb is no failure. Any
// other gets the plugin's name, as libcni has it for ADD, DEL and GC only.
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

// lacksVerb reports whether a plugin has answered that it does not know the
// verb that it was run with. Those built with the CNI project's skeleton
// (pkg/skel/skel.go) say "unknown CNI_COMMAND: GC", with code 4 or, in old
// ones, code 100; or, with a skeleton that knows the verb and a plugin that
// supports no version that has it, "plugin version does not allow GC", with
// code 1. One that supports the version and has no function for the verb
// succeeds. Others have a function that only says so, in words of their own and
// with a code for any failure: "CNI CHECK method is not implemented" (whereabouts
// 0.8, code 999), also by way of the plugin that they are the IPAM plugin of, or
// "not implemented" (the CNI project's sample, which others begin with).
func lacksVerb(err error, verb string) bool {
	var reported *types.Error
	if !errors.As(err, &reported) {
		return false
	}
	said := strings.ToLower(reported.Msg + " " + reported.Details)
	if strings.Contains(said, "not implemented") || strings.Contains(said, "not supported") && strings.Contains(said, strings.ToLower(verb)) {
		return true
	}
	return reported.Code == types.ErrInvalidEnvironmentVariables && strings.Contains(reported.Msg, "CNI_COMMAND") ||
		strings.Contains(reported.Msg, "unknown CNI_COMMAND") ||
		reported.Code == types.ErrIncompatibleCNIVersion
}
