package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"
	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Options are the directories of a Runner and its callbacks.
type Options struct {
	// HostRoot is the driver's path of the host's root directory, with which plugins run
	// as their root. With "/" they run in the driver's own root.
	HostRoot string
	// BinDirs are searched in order for plugin binaries. They are paths in the host.
	BinDirs []string
	// CacheDir is libcni's cache, a path in the driver's root.
	CacheDir string
	// RuntimeCache and MultusCache are the directories in which libcni keeps the results of the
	// container runtime and of Multus, paths in the host. They need not exist. GC, Foreign,
	// DefaultNetwork and ForgetDefaultRoutes go by them.
	RuntimeCache, MultusCache string
	// IsHost reports whether the network namespace at a path in the host is the host's.
	// No plugin runs in that namespace. It may be nil if no sandbox has it.
	IsHost func(netns string) bool
	// Ran is called after each process of a plugin, with the plugin's name, CNI's verb
	// and the time that the process took. It may be nil.
	Ran func(plugin, verb string, took time.Duration)
}

// Runner runs CNI plugins. It keeps no state and is safe for concurrent use, as long as no
// two calls concern the same sandbox: the CNI specification forbids parallel operations on
// one container (§ "Lifecycle").
type Runner struct {
	otherCaches
	cni      *libcni.CNIConfig
	exec     *hostExec
	dirs     []string
	cacheDir string
	// isHost is Options.IsHost.
	isHost func(netns string) bool
	// infoDir is the directory of device information, a path in the host.
	infoDir string
	// digests has the digests of plugins' files, each a digested by the file's path.
	digests sync.Map
	// running is held for reading by operations on one sandbox, and for writing by GC,
	// which concerns a whole network.
	running sync.RWMutex
}

// errHostNetwork means that a plugin was to run in the host's network namespace.
var errHostNetwork = reason.Errorf(reason.HostNetwork, "the sandbox has the host's network namespace, in which no plugin is run for a pod")

// New returns a Runner. It makes the cache directory.
func New(o Options) (*Runner, error) {
	if err := os.MkdirAll(o.CacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the CNI cache directory: %w", err)
	}
	if o.IsHost == nil {
		o.IsHost = func(string) bool { return false }
	}
	e := &hostExec{root: o.HostRoot, ran: o.Ran}
	return &Runner{
		cni:         libcni.NewCNIConfigWithCacheDir(o.BinDirs, o.CacheDir, e),
		exec:        e,
		dirs:        o.BinDirs,
		cacheDir:    o.CacheDir,
		isHost:      o.IsHost,
		otherCaches: otherCaches{hostRoot: o.HostRoot, foreign: []string{ofRuntime: o.RuntimeCache, ofMultus: o.MultusCache}},
		infoDir:     infoDir,
	}, nil
}

// Added is what an ADD has made.
type Added struct {
	// Result is the last plugin's, converted to the newest result version.
	Result *types100.Result
	// Allocated is the time at which the chain's first plugin ended. Its IPAM plugin has given
	// the addresses by then; the rest of the chain may take long.
	Allocated time.Time
	// Plugins are the files that ran, and those of IPAM plugins, as PATH@sha256:DIGEST.
	Plugins []string
}

// Add runs the chain with ADD. If it fails, plugins may have left something behind: the caller must call
// Del. A plugin's error keeps its type (*types.Error), so that errors.As finds its CNI
// code.
//
// Add calls before, unless it is nil, while the first plugin's process starts, and waits
// for it. If before fails, no plugin has received its configuration, and no Del is needed.
// Add refuses the host's network namespace with errHostNetwork.
func (r *Runner) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (Added, error) {
	if r.isHost(s.NetNS) {
		return Added{}, errHostNetwork
	}
	h := hold(before)
	added, err := r.add(ctx, s, a, h)
	if beforeErr := h.wait(); beforeErr != nil {
		return Added{}, errors.Join(beforeErr, r.removeInfo(r.infoPath(s, a)))
	}
	return added, err
}

// add runs the chain with ADD. The first plugin's input waits for h.
func (r *Runner) add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, h *held) (Added, error) {
	list, err := libcni.NetworkConfFromBytes(a.Conflist)
	if err != nil {
		return Added{}, invalidConflist(err)
	}
	r.running.RLock()
	defer r.running.RUnlock()
	if err := r.prepareInfo(list, s, a); err != nil {
		return Added{}, &noAnswer{err}
	}
	var allocated time.Time
	ran := func(plugin, verb string, took time.Duration) {
		if allocated.IsZero() {
			allocated = time.Now()
		}
		if r.exec.ran != nil {
			r.exec.ran(plugin, verb, took)
		}
	}
	cni := r.with(hostExec{ran: ran, held: h})
	res, err := cni.AddNetworkList(ctx, list, r.runtimeConf(s, a))
	if err != nil {
		return Added{}, err
	}
	out, err := types100.GetResult(res)
	if err != nil {
		return Added{}, fmt.Errorf("converting the result of version %s: %w", res.Version(), err)
	}
	return Added{Result: out, Allocated: allocated, Plugins: r.used(list)}, nil
}

// Del runs the chain in reverse with DEL. It may be repeated, also for an attachment whose
// ADD never ran. If the sandbox's network namespace is gone, plugins get an empty path, as
// the CNI specification allows, and release what they keep elsewhere: addresses, files,
// links on the host. They also get an empty path instead of the host's namespace.
//
// If the namespace disappears from its path meanwhile and the caller keeps it by NetNSFD,
// Del runs the chain again with the kept namespace: plugins learn from the pod's interface
// what to undo on the host (bridge: the rules of ipMasq).
//
// result is what ADD returned, as JSON, or empty if it never succeeded. Plugins get it as
// prevResult if libcni's cache lost it. Del leaves out a result that cannot be converted
// to the configuration's version: a DEL must work without (CNI specification, § "DEL").
//
// Without a result, Del tries a chain that a plugin refuses once more without the arguments that the pod requests: plugins
// refuse arguments in DEL as in ADD, and such a DEL would fail for ever. The first try has them, because a plugin may
// need them to find what it made; what fails for a passing reason is tried with them again.
func (r *Runner) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	err := r.tryDel(ctx, s, a, result)
	if err == nil || len(result) > 0 || len(a.Args) == 0 || ctx.Err() != nil || Transient(err) {
		return err
	}
	plain, invalid := a.WithoutArgs()
	if invalid != nil {
		return err
	}
	if again := r.tryDel(ctx, s, plain, nil); again != nil {
		return errors.Join(err, again)
	}
	return nil
}

// tryDel runs the chain with DEL once.
func (r *Runner) tryDel(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	list, err := libcni.NetworkConfFromBytes(a.Conflist)
	if err != nil {
		return invalidConflist(err)
	}
	if err := injectPrevResult(list, result); err != nil {
		return fmt.Errorf("adding the result to the conflist: %w", err)
	}
	kept, err := keep(s)
	if err != nil {
		return err
	}
	if kept != nil {
		defer kept.Close()
	}
	path := s.NetNS
	if !r.netnsExists(path) || r.isHost(path) {
		s.NetNS = ""
	}
	// As with Multus, CNI_ARGS lack the requested values: a plugin whose ADD failed for
	// such a value would fail in DEL, too, for ever. They are still in runtimeConfig,
	// where plugins need them to find what they made.
	a.CNIArgs = nil
	r.running.RLock()
	defer r.running.RUnlock()
	rt := r.runtimeConf(s, a)
	moved := r.moved(path, kept)
	if !moved {
		err = r.del(ctx, list, rt, path)
		moved = r.moved(path, kept)
	}
	if moved {
		err = r.delKept(ctx, list, rt, path, kept)
	}
	if err != nil {
		return err
	}
	return r.removeInfo(r.infoPath(s, a))
}

// del runs the chain. Without a network namespace it also releases the addresses, even if
// the chain has failed. path is where the namespace was.
func (r *Runner) del(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf, path string) error {
	if rt.NetNS != "" {
		return r.cni.DelNetworkList(ctx, list, rt)
	}
	cni := r.with(hostExec{ran: r.exec.ran, gone: true, path: r.nothingAt(path)})
	return errors.Join(cni.DelNetworkList(ctx, list, rt), r.releaseAddresses(ctx, list, rt))
}

// with returns a libcni with this Runner's cache that runs plugins in another way.
func (r *Runner) with(e hostExec) *libcni.CNIConfig {
	e.root = r.exec.root
	return libcni.NewCNIConfigWithCacheDir(r.dirs, r.cacheDir, &e)
}

// keep returns a duplicate of the file by which the caller keeps the namespace, or nil if
// there is none.
func keep(s attachment.Sandbox) (*os.File, error) {
	if s.NetNSFD == 0 {
		return nil, nil
	}
	own, err := unix.FcntlInt(uintptr(s.NetNSFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping network namespace %s: %w", s.NetNS, err)
	}
	return os.NewFile(uintptr(own), s.NetNS), nil
}

// moved reports whether a kept namespace is no longer at its path. The file that it was
// mounted on may still exist.
func (r *Runner) moved(path string, kept *os.File) bool {
	if kept == nil {
		return false
	}
	ours, err := kept.Stat()
	if err != nil {
		return false
	}
	there, err := r.stat(path)
	return err != nil || !os.SameFile(ours, there)
}

// delKept runs the chain in a network namespace that is no longer at its path.
func (r *Runner) delKept(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf, path string, kept *os.File) error {
	rt.NetNS = keptPath
	cni := r.with(hostExec{ran: r.exec.ran, kept: kept, path: r.nothingAt(path)})
	return cni.DelNetworkList(ctx, list, rt)
}

// injectPrevResult puts the result into the configuration of every plugin of the list, in
// the list's version. libcni replaces it if its cache has a result.
func injectPrevResult(list *libcni.NetworkConfigList, result json.RawMessage) error {
	// Earlier versions have no prevResult in a DEL.
	if ok, err := version.GreaterThanOrEqualTo(list.CNIVersion, "0.4.0"); len(result) == 0 || !ok || err != nil {
		return nil //nolint:nilerr // libcni returns the same error about the version next
	}
	prev, err := resultAs(list.CNIVersion, result)
	if err != nil {
		return nil //nolint:nilerr // see Del
	}
	return setPrevResult(list, prev)
}

// resultAs reads a result and converts it to a version.
func resultAs(cniVersion string, result json.RawMessage) (types.Result, error) {
	res, err := create.CreateFromBytes(result)
	if err != nil {
		return nil, err
	}
	return res.GetAsVersion(cniVersion)
}

// setPrevResult puts the result into the configuration of every plugin of the list.
func setPrevResult(list *libcni.NetworkConfigList, prev types.Result) (err error) {
	for i, plugin := range list.Plugins {
		if list.Plugins[i], err = libcni.InjectConf(plugin, map[string]any{"prevResult": prev}); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the plugin types for which no directory has an executable, in the given
// order.
func (r *Runner) Missing(pluginTypes []string) []string {
	var missing []string
	for _, t := range pluginTypes {
		if _, err := r.exec.FindInPath(t, r.dirs); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

// netnsExists reports whether a network namespace exists at a path in the host.
func (r *Runner) netnsExists(path string) bool {
	if path == "" {
		return false
	}
	_, err := r.stat(path)
	return !errors.Is(err, fs.ErrNotExist) // after any other error it may exist
}

// nothingAt returns a path of the host at which nothing is, and "" for any other path.
func (r *Runner) nothingAt(path string) string {
	if r.netnsExists(path) {
		return ""
	}
	return path
}

// stat describes the file at a path in the host.
func (r *Runner) stat(path string) (fs.FileInfo, error) {
	dir, err := securejoin.SecureJoin(r.exec.root, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	// The last part may be a link of /proc that only the kernel can follow.
	return os.Stat(filepath.Join(dir, filepath.Base(path)))
}

// FindInPath searches the host's root for a plugin as libcni does, and returns its path in
// the host.
func (e *hostExec) FindInPath(plugin string, dirs []string) (string, error) {
	if plugin == "" || strings.ContainsRune(plugin, filepath.Separator) {
		return "", fmt.Errorf("plugin type %q is not a file name", plugin)
	}
	for _, dir := range dirs {
		p, err := securejoin.SecureJoin(e.root, filepath.Join(dir, plugin))
		if err != nil {
			continue
		}
		if fi, err := os.Stat(p); err == nil && isProgram(fi) {
			return filepath.Join(dir, plugin), nil
		}
	}
	return "", &noAnswer{reason.Errorf(reason.PluginMissing, "finding plugin %q in %s: %w", plugin, strings.Join(dirs, ", "), fs.ErrNotExist)}
}
