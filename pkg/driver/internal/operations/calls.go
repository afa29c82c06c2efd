package operations

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

const (
	// Workers is the number of calls of a chain of plugins for a namespace that run at a time without anybody waiting
	// for them. Other chains, and other namespaces, have workers of their own: calls that hang for one tenant do not
	// hold up those of another.
	Workers = 4
	// quickWorkers is the number of a chain's STATUS and CHECK for all namespaces, which end soon, and slowWorkers that
	// of its other calls.
	quickWorkers, slowWorkers = 16, 64
	// CheckLimit limits one CHECK. A plugin that hangs is killed.
	CheckLimit = 10 * time.Second
	// StatusLimit limits one STATUS.
	StatusLimit = 5 * time.Second
	// gcLimit limits one GC.
	gcLimit = 2 * time.Second
)

// ErrNotBegun means that a plugin was not called, because the time for waiting was over first.
var ErrNotBegun = errors.New("the plugin was not called")

// Plugins runs CNI plugins. It is a cniexec.Runner outside of tests.
type Plugins interface {
	Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error)
	Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error
	Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error)
	Status(ctx context.Context, conflist json.RawMessage) error
	GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error
	DelOrphan(ctx context.Context, o cniexec.Cached) error

	// The following methods start no process.

	HasCheck(a attachment.Attachment) bool
	DeviceInfo(s attachment.Sandbox, a attachment.Attachment) (json.RawMessage, error)
	// Missing returns the plugins that are not installed.
	Missing(pluginTypes []string) []string
	// Forget removes what libcni keeps of an attachment that somebody else deletes.
	Forget(s attachment.Sandbox, a attachment.Attachment) error
	// ForgetDefaultRoutes removes the default routes from the runtime's result of eth0.
	ForgetDefaultRoutes(sandboxID string) error
	// Orphans returns the attachments in the cache that valid rejects and whose namespace is gone.
	Orphans(valid func(containerID, ifName string) bool) ([]cniexec.Cached, error)
	// Foreign returns what other runtimes have attached in a sandbox.
	Foreign(sandboxID string) ([]attachment.Attachment, error)
}

// Add runs ADD within the network's limit. The caller's operation has the pod's lock.
func (g *Group) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error) {
	leave, err := g.enter(ctx, s, a.Conflist, g.slow)
	if err != nil {
		return cniexec.Added{}, err
	}
	defer leave()
	limit := g.limits.of(a).Add
	ctx, cancel := context.WithTimeoutCause(ctx, limit, reason.Errorf(reason.PluginTimeout, "one ADD may take %s", limit))
	defer cancel()
	return g.Plugins.Add(ctx, s, a, before)
}

// Del runs DEL within the network's limit. The caller's operation has the pod's lock.
func (g *Group) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	leave, err := g.enter(ctx, s, a.Conflist, g.slow)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := g.whole(ctx, a)
	defer cancel()
	return g.Plugins.Del(ctx, s, a, result)
}

// DelOrphan runs DEL of an attachment that only the cache has. The caller's operation has the lock of the
// pod, or of the sandbox if the cache does not know the pod's UID.
func (g *Group) DelOrphan(ctx context.Context, o cniexec.Cached) error {
	leave, err := g.enter(ctx, attachment.Sandbox{ID: o.ContainerID, Pod: o.Pod()}, o.Config, g.slow)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := g.whole(ctx, attachment.Attachment{Conflist: o.Config})
	defer cancel()
	return g.Plugins.DelOrphan(ctx, o)
}

// Check runs CHECK. The caller's operation has the pod's lock.
func (g *Group) Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error) {
	leave, err := g.enter(ctx, s, a.Conflist, g.quick)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, CheckLimit, reason.Errorf(reason.AttachmentChanged, "one CHECK may take %s", CheckLimit))
	defer cancel()
	return g.Plugins.Check(ctx, s, a, result)
}

// Status runs STATUS of a network of a namespace, which concerns no pod. It waits for a worker first.
func (g *Group) Status(ctx context.Context, namespace string, conflist json.RawMessage) error {
	leave, err := g.worker(ctx, namespace, conflist, g.quick)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, StatusLimit, reason.Errorf(reason.PluginTimeout, "one STATUS may take %s", StatusLimit))
	defer cancel()
	return g.Plugins.Status(ctx, conflist)
}

// GC runs GC, which concerns no pod.
func (g *Group) GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error {
	ctx, cancel := context.WithTimeoutCause(ctx, gcLimit, reason.Errorf(reason.PluginTimeout, "one GC may take %s", gcLimit))
	defer cancel()
	return g.Plugins.GC(ctx, conflist, valid)
}

// enter checks that the operation of ctx may call plugins for a sandbox, and waits for a worker if
// nobody waits for the operation.
func (g *Group) enter(ctx context.Context, s attachment.Sandbox, conflist json.RawMessage, all *locks) (leave func(), err error) {
	op, err := held(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case op.Manner == Waited:
		return func() {}, nil
	}
	leave, err = g.worker(ctx, s.Pod.Namespace, conflist, all)
	if err != nil {
		return nil, errors.Join(ErrNotBegun, err)
	}
	return leave, nil
}

// worker waits for a worker of the namespace and for one of all.
func (g *Group) worker(ctx context.Context, namespace string, conflist json.RawMessage, all *locks) (leave func(), err error) {
	plugins := PluginsOf(conflist)
	leaveNamespace, err := g.workers.lock(ctx, namespace+" "+plugins)
	if err != nil {
		return nil, err
	}
	leaveAll, err := all.lock(ctx, plugins)
	if err != nil {
		leaveNamespace()
		return nil, err
	}
	return func() { leaveAll(); leaveNamespace() }, nil
}

// whole returns a context for a DEL that begins. Its own limit ends it, and the end of the time that
// a stop of the driver waits, but nothing else that ends ctx: bridge deletes the interface first and
// the rules of ipMasq last, and if it is killed in between, no second DEL finds these rules (v1.9.1).
// A DEL that begins after that time is that of a rollback, and has its limit.
func (g *Group) whole(ctx context.Context, a attachment.Attachment) (context.Context, context.CancelFunc) {
	limit := g.limits.of(a).Del
	out, end := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, reason.Errorf(reason.DELUnfinished, "one DEL may take %s", limit))
	if g.Context().Err() != nil {
		return out, end
	}
	out, cancel := context.WithCancelCause(out)
	stop := context.AfterFunc(g.Context(), func() { cancel(context.Cause(g.Context())) })
	return out, func() { stop(); cancel(nil); end() }
}

// PluginsOf returns the types of the plugins of a network, with their IPAM plugins. A plugin that
// hangs delays only networks with the same ones, in pods of the same namespace.
func PluginsOf(conflist json.RawMessage) string {
	var types []string
	for _, p := range attachment.PluginsOf(conflist) {
		types = append(types, p.Type+"/"+p.IPAM.Type)
	}
	return strings.Join(types, ",")
}
