package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netns"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// Kernel stands in for CNI plugins and the network namespaces that they change: it has the
// interfaces that an ADD made and no DEL has removed.
type Kernel struct {
	mu sync.Mutex
	// Has has the interfaces: "sandbox/interface".
	Has map[string]bool
	// Renamed has the names that a pod has given to its interfaces.
	Renamed map[string]string
	// Calls lists the plugin calls, Checked the results that CHECK was given.
	Calls, Checked []string
	// Failures has the errors of plugin calls: by "ADD net1", "DEL net1".
	Failures map[string]error
	// Slow delays every ADD, and may fail it.
	Slow func(context.Context) error
	// Info is the device information of every attachment.
	Info json.RawMessage
	// Routes are the pod's default routes. Rerouting may fail a change of them.
	Routes    []checkpoint.Route
	Rerouting func(add []checkpoint.Route) error
	// Added is called for every successful ADD, Deleted for every successful DEL.
	Added   func(iface string)
	Deleted func()
	// Inspections counts the calls of Inspect. Namespace answers them if it is not nil.
	Inspections int
	Namespace   func(netns string) (podnet.Namespace, error)
	// Forgotten has the sandboxes of which the runtime is to forget the default routes, and
	// ForgetErr is the error of that.
	Forgotten []string
	ForgetErr error
	// Links are interfaces in every namespace besides lo and eth0, which no plugin has made.
	Links []string
	// Addresses are those of every namespace. With IP, ADD makes that address.
	Addresses []podnet.Address
	IP        string
	// Gone has the network namespaces that do not exist any more.
	Gone map[string]bool
	// Cached are attachments in the CNI cache; no DEL of theirs succeeds.
	Cached []cniexec.Cached
	// Others has what other runtimes have attached, by sandbox.
	Others map[string][]attachment.Attachment
}

// NewKernel returns a Kernel in which every call succeeds.
func NewKernel() *Kernel {
	return &Kernel{Has: map[string]bool{}, Failures: map[string]error{}, Gone: map[string]bool{}}
}

// Final returns a plugin's error that is not transient.
func Final(text string) error { return types.NewError(types.ErrInternal, text, "") }

// Record adds a call, and returns the failure that is set for it.
func (k *Kernel) Record(verb string, s attachment.Sandbox, a attachment.Attachment) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Calls = append(k.Calls, fmt.Sprintf("%s %s in %s netns %q", verb, a.Interface, s.ID, s.NetNS))
	return k.Failures[verb+" "+a.Interface]
}

// CallCount returns the number of calls so far.
func (k *Kernel) CallCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.Calls)
}

// Fail makes a call such as "ADD net1" fail from now on, or succeed again (nil).
func (k *Kernel) Fail(call string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Failures[call] = err
}

// End removes a sandbox's namespace with everything in it.
func (k *Kernel) End(s attachment.Sandbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Gone[s.NetNS] = true
}

func (k *Kernel) set(name string, has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Has[name] = has; !has {
		delete(k.Has, name)
	}
}

// Add implements the plugins' ADD. A failing one leaves its interface, too.
func (k *Kernel) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error) {
	if before != nil {
		if err := before(); err != nil {
			return cniexec.Added{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return cniexec.Added{}, err
	}
	err := k.Record("ADD", s, a)
	k.set(s.ID+"/"+a.Interface, true)
	if err == nil && k.Slow != nil {
		err = k.Slow(ctx)
	}
	if err != nil {
		return cniexec.Added{}, err
	}
	allocated := time.Now()
	if k.Added != nil {
		k.Added(a.Interface)
	}
	_, ip, _ := net.ParseCIDR("10.1.0.5/24")
	result := &types100.Result{
		CNIVersion: "1.1.0", Interfaces: []*types100.Interface{{Name: a.Interface, Sandbox: s.NetNS}}, IPs: []*types100.IPConfig{{Address: *ip}},
	}
	if k.IP != "" {
		own, network, _ := net.ParseCIDR(k.IP)
		network.IP = own
		result.IPs = append(result.IPs, &types100.IPConfig{Interface: types100.Int(0), Address: *network})
	}
	return cniexec.Added{Result: result, Allocated: allocated, Plugins: []string{"/opt/cni/bin/plugin@sha256:0"}}, nil
}

// Del implements the plugins' DEL.
func (k *Kernel) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, _ json.RawMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Record("DEL", s, a); err != nil {
		return err
	}
	k.set(s.ID+"/"+a.Interface, false)
	if k.Deleted != nil {
		k.Deleted()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Routes = slices.DeleteFunc(k.Routes, func(r checkpoint.Route) bool { return Through(r, a.Interface) })
	return nil
}

// Check implements the plugins' CHECK.
func (k *Kernel) Check(_ context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error) {
	k.mu.Lock()
	k.Checked = append(k.Checked, string(result))
	k.mu.Unlock()
	return nil, k.Record("CHECK", s, a)
}

// HasCheck reports whether CHECK exists: not for interface old0.
func (k *Kernel) HasCheck(a attachment.Attachment) bool { return a.Interface != "old0" }

// DeviceInfo returns Info.
func (k *Kernel) DeviceInfo(attachment.Sandbox, attachment.Attachment) (json.RawMessage, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Info, nil
}

// Forget does nothing: a Kernel has no cache of what it attaches.
func (*Kernel) Forget(attachment.Sandbox, attachment.Attachment) error { return nil }

// ForgetDefaultRoutes records the sandbox in Forgotten.
func (k *Kernel) ForgetDefaultRoutes(sandboxID string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Forgotten = append(k.Forgotten, sandboxID)
	return k.ForgetErr
}

// Open returns no namespace.
func (k *Kernel) Open(string) (netns.NsHandle, error) { return netns.None(), nil }

// Inspect describes a namespace with the interfaces of the default network.
func (k *Kernel) Inspect(netns string) (podnet.Namespace, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Inspections++
	if k.Namespace != nil {
		return k.Namespace(netns)
	}
	if k.Gone[netns] {
		return podnet.Namespace{}, podns.ErrGone
	}
	return podnet.Namespace{Cookie: CookieOf(netns), Links: append([]string{"lo", "eth0"}, k.Links...)}, nil
}

// Look describes a namespace with the interfaces that plugins have made in the one sandbox, and Addresses.
func (k *Kernel) Look(netns string) (podnet.State, error) {
	ns, err := k.Inspect(netns)
	if err != nil {
		return podnet.State{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Inspections-- // of Inspect alone
	byIndex := map[int]podnet.Link{}
	for name := range k.Has {
		_, iface, _ := strings.Cut(name, "/")
		l := podnet.Link{Name: cmp.Or(k.Renamed[iface], iface)}
		ns.Links = append(ns.Links, l.Name)
		byIndex[int(crc32.ChecksumIEEE([]byte(iface)))] = l
	}
	return podnet.State{Namespace: ns, ByIndex: byIndex, Addresses: slices.Clone(k.Addresses)}, nil
}

// SetAddresses replaces Addresses.
func (k *Kernel) SetAddresses(all ...podnet.Address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Addresses = all
}

// Missing reports that all plugins but "absent" are installed.
func (k *Kernel) Missing(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name != "absent" })
}

// Status reports that all plugins are healthy.
func (k *Kernel) Status(context.Context, json.RawMessage) error { return nil }

// CookieOf returns the cookie of a namespace.
func CookieOf(netns string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(netns))) }

// DefaultRoutes returns Routes.
func (k *Kernel) DefaultRoutes(string) ([]checkpoint.Route, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.Routes), nil
}

// Reroute changes Routes.
func (k *Kernel) Reroute(_ string, remove, add []checkpoint.Route) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Rerouting != nil {
		if err := k.Rerouting(add); err != nil {
			return err
		}
	}
	k.Routes = append(slices.DeleteFunc(slices.Clone(k.Routes), func(r checkpoint.Route) bool {
		return slices.ContainsFunc(remove, func(other checkpoint.Route) bool {
			return r.Family == other.Family && r.Metric == other.Metric && reflect.DeepEqual(r.Hops, other.Hops)
		})
	}), add...)
	return nil
}

// Through reports whether a route leaves by the interface.
func Through(r checkpoint.Route, iface string) bool {
	return slices.ContainsFunc(r.Hops, func(h checkpoint.Hop) bool { return h.Interface == iface })
}

// Foreign returns Others of a sandbox.
func (k *Kernel) Foreign(sandboxID string) ([]attachment.Attachment, error) {
	return k.Others[sandboxID], nil
}

// Orphans returns Cached.
func (k *Kernel) Orphans(func(string, string) bool) ([]cniexec.Cached, error) { return k.Cached, nil }

// DelOrphan always fails.
func (k *Kernel) DelOrphan(context.Context, cniexec.Cached) error { return Final("busy") }

// GC records the call.
func (k *Kernel) GC(_ context.Context, conflist json.RawMessage, valid []types.GCAttachment) error {
	k.Calls = append(k.Calls, fmt.Sprintf("GC %s valid %v", conflist, valid))
	return nil
}
