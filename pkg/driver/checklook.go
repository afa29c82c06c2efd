package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// look is what is known of an attachment by the looks into its namespace.
type look struct {
	sandbox string
	result  json.RawMessage
	// made are the interfaces that its plugins have made there, and indices the kernel's numbers of them.
	made    map[string]cniexec.Interface
	indices map[string]int
	// renamed is true while one of them has another name: the pod manages it, and plugins do not find it.
	renamed bool
	// never is what the first look has not found, and no CHECK has missed: a device with a driver of user space has no
	// interface.
	never []string
	// lost is what was there and is not as it was, reported what the pod's owner knows of that.
	lost, reported []string
}

// lookAtAll looks into the namespaces of all attachments, and reports what has changed since the look before. It
// forgets attachments, networks and pods of which there is no record any more.
func (c *checker) lookAtAll() {
	known, networks, pods := map[checkpoint.Key]bool{}, map[networkOfPods]bool{}, map[attachment.PodRef]bool{}
	for pod, records := range checkpoint.ByPod(c.store.All()) {
		pods[pod] = true
		ofPod := networksOf(records)
		for _, r := range records {
			known[r.Key()], networks[networkOfPods{r.Attachment.Network, ofPod}] = true, true
		}
		if c.lookAt(pod, records) {
			c.background.Go(func(ctx context.Context) { c.checkLost(ctx, pod) })
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.looks, func(key checkpoint.Key, _ look) bool { return !known[key] })
	maps.DeleteFunc(c.passed, func(n networkOfPods, _ bool) bool { return !networks[n] })
	for n, of := range c.doubted {
		c.doubted[n] = slices.DeleteFunc(of, func(pod attachment.PodRef) bool { return !pods[pod] })
	}
	maps.DeleteFunc(c.doubted, func(_ networkOfPods, of []attachment.PodRef) bool { return len(of) == 0 })
}

// lookAt looks into the namespace of a pod with these records, and reports whether it lacks something of which the
// pod's owner does not know, or has it again. The first look at an attachment only remembers what is there. It leaves
// out virtual machines, whose interfaces virt-handler changes for the guest, interfaces that the pod has renamed, and
// sandboxes that have ended.
func (c *checker) lookAt(pod attachment.PodRef, records []checkpoint.Record) (changed bool) {
	records = checkpoint.Where(checkpoint.Networks(records), func(r checkpoint.Record) bool {
		return r.Phase == checkpoint.Attached && r.BootID == c.store.BootID() && r.Sandbox.NetNS != ""
	})
	live, found := c.sandboxes.of(pod.UID)
	if len(records) == 0 || !found || live.launcher {
		return false
	}
	state, err := c.attacher.Netns.Look(records[0].Sandbox.NetNS)
	if err != nil {
		return false // its sandbox has ended, or the next look succeeds
	}
	var names []string
	for _, r := range records {
		names = slices.AppendSeq(names, maps.Keys(madeBy(r)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range records {
		if r.Sandbox.ID != live.ID || r.Sandbox.Cookie != state.Cookie {
			continue
		}
		l, known := c.looks[r.Key()]
		if !known || l.sandbox != r.Sandbox.ID || !bytes.Equal(l.result, r.Result) {
			l = look{sandbox: r.Sandbox.ID, result: r.Result, made: madeBy(r), indices: map[string]int{}}
			for name, m := range l.made {
				l.indices[name] = state.Index(name, m.MAC, names)
			}
			l.never = l.lacks(state)
		}
		l.renamed = len(l.named(state)) < len(l.made)
		l.lost = slices.DeleteFunc(l.lacks(state), func(what string) bool { return slices.Contains(l.never, what) })
		changed = changed || !slices.Equal(l.lost, l.reported)
		c.looks[r.Key()] = l
	}
	return changed
}

// lacks returns what the namespace does not have of an attachment.
func (l look) lacks(state podnet.State) []string { return state.Lacks(l.named(state)) }

// named returns the interfaces that the pod has not renamed.
func (l look) named(state podnet.State) map[string]cniexec.Interface {
	out := maps.Clone(l.made)
	maps.DeleteFunc(out, func(name string, _ cniexec.Interface) bool { return state.Renamed(l.indices[name], name) })
	return out
}

// takeNews reports whether an attachment has lost something, and whether its pod's owner does not know it yet, who is
// told now.
func (c *checker) takeNews(r checkpoint.Record) (lost, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, known := c.looks[r.Key()]
	if !known {
		return false, false
	}
	news = !slices.Equal(l.lost, l.reported)
	l.reported = l.lost
	c.looks[r.Key()] = l
	return len(l.lost) > 0, news
}

// madeBy returns the interfaces that plugins have made in the sandbox, with their addresses.
func madeBy(r checkpoint.Record) map[string]cniexec.Interface {
	var result types100.Result
	_ = json.Unmarshal(r.Result, &result) // nothing can be missed of a result that cannot be read
	return cniexec.Interfaces(&result)
}

// lost returns what an attachment has lost, as an error with the code AttachmentChanged, or nil.
func (c *checker) lost(r checkpoint.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.looks[r.Key()]
	if len(l.lost) == 0 || !checkpoint.InSandbox(l.sandbox)(r) {
		return nil
	}
	return l.err()
}

// err returns what is lost.
func (l look) err() error {
	return reason.Errorf(reason.AttachmentChanged, "%s", strings.Join(l.lost, "; "))
}

// countLost counts the attachments that have lost something.
func (c *checker) countLost() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.looks {
		if len(l.lost) > 0 {
			n++
		}
	}
	return n
}

// linkGone requests a look if an interface of the host is gone by whose name a network is attached: what was made
// on it is gone, too.
func (c *checker) linkGone(name string) {
	quoted := []byte(strconv.Quote(name))
	for r := range c.store.Each {
		if bytes.Contains(r.Attachment.Conflist, quoted) {
			c.sweeps.Set()
			return
		}
	}
}
