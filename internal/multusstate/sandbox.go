package multusstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// defaultInterface is the name of the default network's interface in every pod.
const defaultInterface = "eth0"

// Dir has Multus' directory, and the container runtime's cache of libcni, as paths of this
// process.
type Dir struct {
	// Multus is Multus' cniDir, /var/lib/cni/multus by default. It need not exist.
	Multus string
	// Runtime is the cache of libcni that the container runtime uses.
	Runtime string
}

// Sandbox is a sandbox that Multus has attached, or has begun to attach.
type Sandbox struct {
	ID string
	// Pod and NetNS are empty if no ADD has succeeded.
	Pod attachment.PodRef
	// NetNS is the path of the network namespace in the host.
	NetNS string
	// Attachments are those besides the default network, in Multus' order.
	Attachments []Attachment
	// Written is when Multus wrote its file.
	Written time.Time
	// eth0 is the entry of the default network, or nil.
	eth0 *cniexec.CacheEntry
}

// Attachment is one network of a sandbox.
type Attachment struct {
	attachment.Attachment
	// Result is the result of ADD in JSON, or empty if no ADD has succeeded.
	Result []byte
}

// Complete reports whether all ADDs of the sandbox have succeeded. A sandbox that is not is
// being made, or removed, or has failed.
func (s Sandbox) Complete() bool {
	return s.eth0 != nil && !slices.ContainsFunc(s.Attachments, func(a Attachment) bool { return len(a.Result) == 0 })
}

// Problem is a sandbox that cannot be understood, and why.
type Problem struct {
	Sandbox string `json:"sandbox"`
	// Pod is the sandbox's pod as namespace/name, if it is known.
	Pod   string `json:"pod,omitempty"`
	Error string `json:"error"`
}

// Sandboxes returns the sandboxes whose attachments Multus has to delete, and those that cannot
// be understood. A missing directory has none.
func (d Dir) Sandboxes() ([]Sandbox, []Problem, error) { return d.read(d.Multus) }

// Taken returns the sandboxes that nadra has taken.
func (d Dir) Taken() ([]Sandbox, []Problem, error) { return d.read(d.taken()) }

// read reads the sandboxes whose files are in a directory.
func (d Dir) read(dir string) (out []Sandbox, problems []Problem, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.ContainsFunc(files, isScratch) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Multus' sandboxes: %w", err)
	}
	cached, cacheErr := cniexec.ReadCache(d.results())
	entries := map[string][]cniexec.CacheEntry{} // by sandbox
	for _, e := range cached {
		entries[e.ContainerID] = append(entries[e.ContainerID], e)
	}
	for _, f := range files {
		if !isScratch(f) {
			continue
		}
		s, err := readSandbox(filepath.Join(dir, f.Name()), entries[f.Name()])
		if errors.Is(err, fs.ErrNotExist) { // removed just now
			continue
		}
		if err != nil {
			problems = append(problems, Problem{Sandbox: f.Name(), Pod: podName(s), Error: errors.Join(err, cacheErr).Error()})
			continue
		}
		out = append(out, s)
	}
	return out, problems, nil
}

func podName(s Sandbox) string {
	if s.Pod.Name == "" {
		return ""
	}
	return s.Pod.String()
}

// isScratch reports whether a file is Multus' file of a sandbox: it has the sandbox's ID as its
// name, and is not a file of libcni or a temporary one.
func isScratch(f fs.DirEntry) bool {
	return f.Type().IsRegular() && len(f.Name()) >= minID && strings.Trim(f.Name(), "0123456789abcdef") == ""
}

// minID is less than the length of any container runtime's IDs.
const minID = 32

// readSandbox reads one sandbox. entries are its own of libcni's cache. If Multus' file is damaged,
// it takes the attachments from the cache, which does not know their NADs.
func readSandbox(path string, entries []cniexec.CacheEntry) (Sandbox, error) {
	s := Sandbox{ID: filepath.Base(path)}
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	s.Written = info.ModTime()
	for i, e := range entries {
		if e.IfName == defaultInterface {
			s.eth0 = &entries[i]
		}
		s.Pod, s.NetNS = e.Pod(), e.NetNS
	}
	delegates, err := readScratch(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, err
	case err != nil && len(entries) == 0:
		return s, err
	case err != nil:
		s.Attachments, err = ofCache(others(entries, s.eth0, nil))
		return s, err
	}
	if s.eth0 == nil { // the pod's annotation may rename its primary interface
		s.eth0 = entryOf(entries, delegates[0].IfnameRequest)
	}
	if s.Attachments, err = ofDelegates(path, delegates, entries); err != nil {
		return s, err
	}
	// What multus-dynamic-networks-controller has added is in the cache only.
	added, err := ofCache(others(entries, s.eth0, s.Attachments))
	s.Attachments = append(s.Attachments, added...)
	return s, err
}

// others returns the entries besides the default network's and those of attachments.
func others(entries []cniexec.CacheEntry, eth0 *cniexec.CacheEntry, known []Attachment) []cniexec.CacheEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e cniexec.CacheEntry) bool {
		return eth0 != nil && e.IfName == eth0.IfName || slices.ContainsFunc(known, func(a Attachment) bool { return a.Interface == e.IfName })
	})
}

// ofDelegates returns the attachments of Multus' file, with what the cache knows of them.
func ofDelegates(path string, delegates []delegate, entries []cniexec.CacheEntry) ([]Attachment, error) {
	var out []Attachment
	for i, d := range delegates[1:] {
		one := Attachment{Attachment: attachment.Attachment{
			Network: d.ref(), Interface: d.interfaceName(i + 1), CapabilityArgs: d.capabilityArgs(), ResourceName: d.ResourceName, DefaultRoute: d.GatewayRequest,
		}}
		config := d.Bytes
		if e := entryOf(entries, one.Interface); e != nil {
			config = e.Config
			one.use(e)
		}
		if err := setConfig(&one.Attachment, path, config); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// ofCache returns the attachments of libcni's cache in the order of their interfaces.
func ofCache(entries []cniexec.CacheEntry) ([]Attachment, error) {
	var out []Attachment
	for _, e := range entries {
		one := Attachment{Attachment: attachment.Attachment{Network: attachment.NetworkRef{Name: e.Network}, Interface: e.IfName}}
		one.use(&e)
		if err := setConfig(&one.Attachment, e.File, e.Config); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Attachment) int { return strings.Compare(a.Interface, b.Interface) })
	return out, nil
}

// use takes what ADD was given, and what it returned, from the cache.
func (a *Attachment) use(e *cniexec.CacheEntry) {
	a.CapabilityArgs, a.CNIArgs, a.Result = e.CapabilityArgs, nil, e.Result
	for _, arg := range e.Args {
		if arg[0] != "IgnoreUnknown" && !strings.HasPrefix(arg[0], "K8S_POD_") && !slices.Contains(a.CNIArgs, arg) {
			a.CNIArgs = append(a.CNIArgs, arg)
		}
	}
}

// entryOf returns the entry of an interface, or nil.
func entryOf(entries []cniexec.CacheEntry, ifName string) *cniexec.CacheEntry {
	i := slices.IndexFunc(entries, func(e cniexec.CacheEntry) bool { return e.IfName == ifName })
	if i < 0 {
		return nil
	}
	return &entries[i]
}
