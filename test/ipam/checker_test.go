//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// sampling is the pause between two samples of all pods.
const sampling = 200 * time.Millisecond

// holder is an interface of a running pod.
type holder struct{ uid, pod, iface string }

// checker reads the interfaces of a namespace's running pods and whereabouts' pools all the
// time. A pod runs while one of its containers has its own process and the API server has
// the pod; while it is held at the gate, or only its sandbox is left, it does not.
type checker struct {
	lab        *lab.Lab
	namespace  string
	containers map[*cluster.Node]*lab.Containers
	pods       cache.Store

	mu sync.Mutex
	// started and stored say when a pod was first seen to run and when its
	// network-status was, by UID.
	started, stored map[string]time.Time
	// duplicates and lost have the evidence by address, and by holder.
	duplicates map[netip.Addr]string
	lost       map[holder]string
	samples    int
}

// newChecker returns a checker that knows the namespace's pods until ctx ends.
func newChecker(ctx context.Context, l *lab.Lab, namespace string) (*checker, error) {
	c := &checker{
		lab: l, namespace: namespace, containers: map[*cluster.Node]*lab.Containers{},
		started: map[string]time.Time{}, stored: map[string]time.Time{},
		duplicates: map[netip.Addr]string{}, lost: map[holder]string{},
	}
	for _, n := range l.Cluster.Nodes() {
		c.containers[n] = lab.NewContainers(n)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(l.Kube, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	c.pods = informer.GetStore()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { c.noteStatus(pod.(*corev1.Pod)) },
		UpdateFunc: func(_, pod any) { c.noteStatus(pod.(*corev1.Pod)) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("listing the pods of %s: %w", namespace, ctx.Err())
	}
	return c, nil
}

func (c *checker) noteStatus(p *corev1.Pod) {
	if p.Annotations[nadv1.NetworkStatusAnnot] == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.stored[string(p.UID)]; !known {
		c.stored[string(p.UID)] = time.Now()
	}
}

// run samples until ctx ends.
func (c *checker) run(ctx context.Context) {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	for {
		c.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sample reads the interfaces, then the pools, then the interfaces again. Only addresses
// that an interface has before and after count, because pods come and go meanwhile.
func (c *checker) sample(ctx context.Context) {
	before := c.holders()
	pools, err := inPools(ctx, c.lab)
	if err != nil {
		return // the run is over, or the API server is away
	}
	suspects := suspicious(before, pools)
	if len(suspects) > 0 {
		after := c.holders()
		suspects = slices.DeleteFunc(suspects, func(s suspect) bool {
			return slices.ContainsFunc(s.holders, func(h holder) bool {
				return !slices.Contains(after[s.address], h) || !c.exists(ctx, h)
			})
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples++
	for _, s := range suspects {
		c.note(s)
	}
}

func (c *checker) note(s suspect) {
	at := time.Now().Format("15:04:05.000")
	if s.duplicate {
		if c.duplicates[s.address] == "" {
			c.duplicates[s.address] = fmt.Sprintf("%s has %v", at, s)
		}
		return
	}
	if h := s.holders[0]; c.lost[h] == "" {
		c.lost[h] = fmt.Sprintf("%s has %v", at, s)
	}
}

// suspect is an address that more than one interface has, or that no pool allocates to its
// only interface.
type suspect struct {
	address   netip.Addr
	holders   []holder
	duplicate bool
}

func (s suspect) String() string {
	var who []string
	for _, h := range s.holders {
		who = append(who, h.pod+" ("+h.iface+")")
	}
	if s.duplicate {
		return fmt.Sprintf("%s on %s", s.address, strings.Join(who, " and "))
	}
	return fmt.Sprintf("%s on %s, to which no IPPool gives it", s.address, who[0])
}

// suspicious compares the addresses of interfaces with each other and with the
// pools.
func suspicious(held map[netip.Addr][]holder, pools []allocation) (out []suspect) {
	for address, holders := range held {
		if len(holders) > 1 {
			out = append(out, suspect{address, holders, true})
		}
		for _, h := range holders {
			if !slices.ContainsFunc(pools, func(a allocation) bool { return a.address == address && a.pod == h.pod && a.iface == h.iface }) {
				out = append(out, suspect{address, []holder{h}, false})
			}
		}
	}
	return out
}

// holders returns the present holders of each address of the namespace's running pods.
func (c *checker) holders() map[netip.Addr][]holder {
	out := map[netip.Addr][]holder{}
	for n, containers := range c.containers {
		for _, at := range containers.List() {
			if at.IsSandbox || at.Namespace != c.namespace {
				continue
			}
			pid, ok := lab.StartedProcess(n, at.ID)
			if !ok {
				continue
			}
			c.mu.Lock()
			if _, known := c.started[at.PodUID]; !known {
				c.started[at.PodUID] = time.Now()
			}
			c.mu.Unlock()
			interfaces, err := addresses(n, "/proc/"+pid+"/ns/net")
			if err != nil {
				continue // it has ended
			}
			for iface, list := range interfaces {
				for _, address := range list {
					out[address] = append(out[address], holder{at.PodUID, at.Namespace + "/" + at.Pod, iface})
				}
			}
		}
	}
	return out
}

// exists reports whether the API server still has the pod: the address of a pod that
// was deleted by force is free, however long its containers take to end.
func (c *checker) exists(ctx context.Context, h holder) bool {
	_, name, _ := strings.Cut(h.pod, "/")
	p, err := c.lab.Kube.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && string(p.UID) == h.uid
}

// addresses returns the addresses in a network namespace, given by a path on
// the node, by interface. The default network's and link-local addresses, which
// no IPAM gives, are left out. The namespace is held open only while it is read.
func addresses(n *cluster.Node, path string) (map[string][]netip.Addr, error) {
	outside, err := n.HostPath(path)
	if err != nil {
		return nil, err
	}
	ns, err := netns.GetFromPath(outside)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return nil, err
	}
	out := map[string][]netip.Addr{}
	for _, link := range links {
		name := link.Attrs().Name
		if name == "lo" || name == "eth0" {
			continue
		}
		list, err := h.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if address, ok := netip.AddrFromSlice(a.IP); ok && !address.IsLinkLocalUnicast() {
				out[name] = append(out[name], address.Unmap())
			}
		}
	}
	return out, nil
}

// findings returns the evidence of all duplicates and lost addresses.
func (c *checker) findings() (duplicates, lost []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.duplicates)), slices.Sorted(maps.Values(c.lost))
}

// lives returns how many pods were seen to run, and in how many samples.
func (c *checker) lives() (pods, samples int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.started), c.samples
}

// hasStarted reports whether the pod was seen to run.
func (c *checker) hasStarted(p *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, started := c.started[string(p.UID)]
	return started
}

// delays describes how long after the pods' start their network-status was seen:
// the least, the median and the most.
func (c *checker) delays() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []time.Duration
	never := 0
	for uid, started := range c.started {
		if stored, known := c.stored[uid]; known {
			all = append(all, stored.Sub(started))
		} else {
			never++
		}
	}
	if len(all) == 0 {
		return fmt.Sprintf("status-never=%d", never)
	}
	slices.Sort(all)
	seconds := func(d time.Duration) string { return fmt.Sprintf("%+.1fs", d.Seconds()) }
	return fmt.Sprintf("status-after-start=%s/%s/%s status-never=%d", seconds(all[0]), seconds(all[len(all)/2]), seconds(all[len(all)-1]), never)
}
