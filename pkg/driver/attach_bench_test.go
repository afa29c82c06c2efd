//go:build e2e

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/test/bench/sealed"
	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/cluster"
)

const (
	// hookPairs is how often each case is measured, after some that warm up.
	hookPairs  = 80
	hookWarmUp = 5
)

// macvlan and chain are the plugins of one network, for its number and a data
// directory of host-local.
const (
	macvlanPlugin = `{"type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.%d.0.0/16","dataDir":%q}}`
	chainPlugins  = macvlanPlugin + `,{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}},{"type":"sbr"}`
)

// BenchmarkHook compares nadra's sandbox hooks with calls of libcni for the same
// configurations by the same process: the difference is what nadra adds. Each pair is one
// sandbox that each of both attaches and detaches, in alternating order. make bench runs it
// and records its figures.
func BenchmarkHook(b *testing.B) {
	artifacts, err := cluster.Build(b.Context(), os.Stderr)
	if err != nil {
		b.Fatal(err)
	}
	discardLog(b)
	for _, c := range []hookCase{
		{name: "macvlan-1", networks: 1, plugins: macvlanPlugin},
		{name: "macvlan-2", networks: 2, plugins: macvlanPlugin},
		{name: "macvlan-4", networks: 4, plugins: macvlanPlugin},
		{name: "macvlan-8", networks: 8, plugins: macvlanPlugin},
		{name: "macvlan+tuning+sbr-1", networks: 1, plugins: chainPlugins},
		{name: "macvlan-1-state-in-memory", networks: 1, plugins: macvlanPlugin, inMemory: true},
	} {
		c.binDir = artifacts.CNI
		b.Run(c.name, c.run)
	}
}

type hookCase struct {
	name     string
	networks int
	plugins  string
	binDir   string
	// inMemory has the records on a tmpfs, where a sync costs nothing.
	inMemory bool
}

// run measures one case in namespaces of its own. It does not look at b.N: the
// number of pairs is what makes the medians stable.
func (c hookCase) run(b *testing.B) {
	dir, sandboxes := b.TempDir(), b.TempDir()
	world, err := sealed.Enter(sandboxes)
	if errors.Is(err, sealed.ErrNotSealed) {
		b.Skip("make bench gives it namespaces of its own: ", err)
	}
	must(b, err)
	defer func() { must(b, world.Close()) }()
	must(b, world.Master("lan0"))
	stateDir := filepath.Join(dir, "state")
	if c.inMemory {
		stateDir = filepath.Join(sandboxes, "state")
	}
	ours, err := newNadraSide(b.Context(), c, stateDir, filepath.Join(dir, "nadra-addresses"))
	must(b, err)
	defer ours.driver.events.Shutdown()
	theirs, err := newLibcniSide(c, filepath.Join(dir, "libcni"), filepath.Join(dir, "libcni-addresses"))
	must(b, err)

	m := measurements{networks: float64(c.networks)}
	for i := range hookWarmUp + hookPairs {
		var pair pairTimes
		order := []func(){
			func() { must(b, ours.measure(b.Context(), world, i, &pair)) },
			func() { must(b, theirs.measure(b.Context(), world, i, &pair)) },
		}
		order[i%2]()
		order[1-i%2]()
		pair.disk, err = timed(func() error { return syncedWrite(filepath.Join(stateDir, "probe")) })
		must(b, err)
		if i >= hookWarmUp {
			m.add(pair)
		}
	}
	m.print(b)
}

// pairTimes are the times of one pair.
type pairTimes struct {
	nadraAdd, nadraDel, libcniAdd, libcniDel time.Duration
	// Parts of nadraAdd: in the runner, which is libcni and the plugins, in the
	// look into the namespace, in the report. What is left is the records.
	runner, look, report time.Duration
	// delRunner is the part of nadraDel in the runner.
	delRunner time.Duration
	// disk is what it takes, at that time, to make a file of 2 KiB durable.
	disk time.Duration
}

type measurements struct {
	networks                                 float64
	nadraAdd, nadraDel, libcniAdd, libcniDel stats.Sample
	addedAdd, addedDel                       stats.Sample // per attachment
	outside                                  stats.Sample // per attachment: in the hook, not in the runner
	outsideDel                               stats.Sample // per attachment
	disk                                     stats.Sample
	addedRunner, look, records, report       stats.Sample // per attachment
}

func (m *measurements) add(p pairTimes) {
	m.nadraAdd.Add(p.nadraAdd)
	m.nadraDel.Add(p.nadraDel)
	m.libcniAdd.Add(p.libcniAdd)
	m.libcniDel.Add(p.libcniDel)
	m.disk.Add(p.disk)
	each := func(s *stats.Sample, d time.Duration) { *s = append(*s, stats.Milliseconds(d)/m.networks) }
	each(&m.addedAdd, p.nadraAdd-p.libcniAdd)
	each(&m.addedDel, p.nadraDel-p.libcniDel)
	each(&m.outside, p.nadraAdd-p.runner)
	each(&m.outsideDel, p.nadraDel-p.delRunner)
	each(&m.addedRunner, p.runner-p.libcniAdd)
	each(&m.look, p.look)
	each(&m.report, p.report)
	each(&m.records, p.nadraAdd-p.runner-p.look-p.report)
}

// print gives medians. Units are words for test/bench, which reads them.
func (m *measurements) print(b *testing.B) {
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(float64(len(m.nadraAdd)), "pairs")
	for unit, s := range map[string]stats.Sample{
		"ms-nadra": m.nadraAdd, "DEL-ms-nadra": m.nadraDel,
		"ms-libcni": m.libcniAdd, "DEL-ms-libcni": m.libcniDel,
		"ms/attachment-added": m.addedAdd, "DEL-ms/attachment-added": m.addedDel,
		"ms/attachment-outside-plugins": m.outside, "DEL-ms/attachment-outside-plugins": m.outsideDel,
		"part-ms/attachment-runner": m.addedRunner, "part-ms/attachment-look": m.look,
		"part-ms/attachment-records": m.records, "part-ms/attachment-report": m.report,
		"ms/synced-write": m.disk,
	} {
		b.ReportMetric(s.Median(), unit)
	}
}

// nadraSide is a driver whose hooks are called as by the container runtime.
type nadraSide struct {
	driver *Driver
	hooks  *hooks
	runner *timedRunner
	plan   []attachment.Attachment
	look   time.Duration // of the hook that runs
}

func newNadraSide(ctx context.Context, c hookCase, stateDir, dataDir string) (*nadraSide, error) {
	d, err := New(ctx, Config{
		HostRoot: "/", StateDir: stateDir, CDIDir: stateDir, CNIBinDirs: []string{c.binDir}, HookBudget: time.Minute, AddTimeout: time.Minute, DelTimeout: time.Minute,
		Metrics: metrics.NewNode(),
	}, Clients{})
	if err != nil {
		return nil, err
	}
	if _, err := d.store.Load(); err != nil {
		return nil, err
	}
	s := &nadraSide{driver: d, runner: &timedRunner{Plugins: d.attacher.Plugins}, plan: c.plan(dataDir)}
	d.attacher.Plugins, d.attacher.Netns = s.runner, timedNetns{d.attacher.Netns, &s.look}
	s.hooks = newHooks(d, time.Minute)
	return s, nil
}

// measure prepares a pod, runs its hooks and unprepares it.
func (s *nadraSide) measure(ctx context.Context, world *sealed.World, i int, p *pairTimes) error {
	pod, err := newPod(world, "nadra", i)
	if err != nil {
		return err
	}
	if err := s.driver.store.Put(preparedFor(pod, s.plan)); err != nil {
		return err
	}
	s.look, s.runner.took = 0, 0
	if p.nadraAdd, err = timed(func() error { return s.hooks.RunPodSandbox(ctx, pod) }); err != nil {
		return err
	}
	p.look, p.runner = s.look, s.runner.took
	// Once more, as it cannot be seen from outside of the hook.
	p.report, _ = timed(func() error { s.driver.jobs.reportAttached(sandboxOf(pod, nowhere)); return nil })
	s.runner.took = 0
	if p.nadraDel, err = timed(func() error { return s.hooks.StopPodSandbox(ctx, pod) }); err != nil {
		return err
	}
	p.delRunner = s.runner.took
	return s.driver.preparer.unprepare(ctx, claimOf(pod))
}

// timedNetns adds up the time of inspections.
type timedNetns struct {
	attach.Netns
	took *time.Duration
}

func (n timedNetns) Inspect(netns string) (podnet.Namespace, error) {
	defer addTime(n.took, time.Now())
	return n.Netns.Inspect(netns)
}

// timedRunner adds up the time in the real runner.
type timedRunner struct {
	attach.Plugins
	took time.Duration
}

func (r *timedRunner) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error) {
	defer addTime(&r.took, time.Now())
	return r.Plugins.Add(ctx, s, a, before)
}

func (r *timedRunner) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	defer addTime(&r.took, time.Now())
	return r.Plugins.Del(ctx, s, a, result)
}

// libcniSide is what any caller of CNI plugins has to do at the least.
type libcniSide struct {
	cni   *libcni.CNIConfig
	lists []*libcni.NetworkConfigList
}

func newLibcniSide(c hookCase, cacheDir, dataDir string) (*libcniSide, error) {
	// libcni's own way of running plugins, without their chatter.
	run := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	s := &libcniSide{cni: libcni.NewCNIConfigWithCacheDir([]string{c.binDir}, cacheDir, run)}
	for _, a := range c.plan(dataDir) {
		list, err := libcni.NetworkConfFromBytes(a.Conflist)
		if err != nil {
			return nil, err
		}
		s.lists = append(s.lists, list)
	}
	return s, nil
}

func (s *libcniSide) measure(ctx context.Context, world *sealed.World, i int, p *pairTimes) error {
	pod, err := newPod(world, "libcni", i)
	if err != nil {
		return err
	}
	if p.libcniAdd, err = timed(func() error { return s.addAll(ctx, pod) }); err != nil {
		return err
	}
	p.libcniDel, err = timed(func() error { return s.delAll(ctx, pod) })
	return err
}

func (s *libcniSide) addAll(ctx context.Context, pod *nri.PodSandbox) error {
	for i, list := range s.lists {
		if _, err := s.cni.AddNetworkList(ctx, list, confOf(pod, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *libcniSide) delAll(ctx context.Context, pod *nri.PodSandbox) error {
	for i := len(s.lists) - 1; i >= 0; i-- {
		if err := s.cni.DelNetworkList(ctx, s.lists[i], confOf(pod, i)); err != nil {
			return err
		}
	}
	return nil
}

// confOf returns what nadra's runner passes to libcni.
func confOf(pod *nri.PodSandbox, i int) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: pod.Id, NetNS: sandboxOf(pod, nowhere).NetNS, IfName: interfaceNo(i),
		Args: [][2]string{
			{"IgnoreUnknown", "true"},
			{"K8S_POD_NAMESPACE", pod.Namespace},
			{"K8S_POD_NAME", pod.Name},
			{"K8S_POD_INFRA_CONTAINER_ID", pod.Id},
			{"K8S_POD_UID", pod.Uid},
		},
	}
}

// plan makes the attachments, one for each network.
func (c hookCase) plan(dataDir string) []attachment.Attachment {
	var out []attachment.Attachment
	for i := range c.networks {
		name := fmt.Sprintf("blue-%d", i)
		conflist := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[`+c.plugins+`]}`, name, 100+i, dataDir)
		out = append(out, attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "default", Name: name}, Interface: interfaceNo(i),
			CNIName: name, Conflist: json.RawMessage(conflist),
		})
	}
	return out
}

func interfaceNo(i int) string { return fmt.Sprintf("net%d", i+1) }

// newPod makes a sandbox and returns it as the runtime describes it. IDs are as long as real
// ones.
func newPod(world *sealed.World, side string, i int) (*nri.PodSandbox, error) {
	name := fmt.Sprintf("%s-%d", side, i)
	netns, err := world.Sandbox(name)
	if err != nil {
		return nil, err
	}
	return &nri.PodSandbox{
		Id: strings.Repeat("0", 64-len(name)) + name, Namespace: "default", Name: name, Uid: name + "-uid",
		Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: netns}}},
	}, nil
}

func claimOf(pod *nri.PodSandbox) string { return "claim-of-" + pod.Uid }

// preparedFor returns one claim with a request for each attachment.
func preparedFor(pod *nri.PodSandbox, plan []attachment.Attachment) []attachment.Prepared {
	var out []attachment.Prepared
	for i, a := range plan {
		out = append(out, attachment.Prepared{
			Claim:   attachment.ClaimRef{Namespace: "default", Name: "claim-of-" + pod.Name, UID: claimOf(pod)},
			Pod:     sandboxOf(pod, nowhere).Pod,
			Request: a.Interface, Pool: "node-1/networks", Device: a.CNIName, Index: i,
			Attachment: a,
		})
	}
	return out
}

// syncedWrite does what every change of a record costs the disk at the least.
func syncedWrite(path string) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 2<<10))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

func addTime(sum *time.Duration, start time.Time) { *sum += time.Since(start) }

// discardLog discards the driver's log, so that it costs what a log costs and does not mix
// with the figures on the terminal.
func discardLog(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(b, err)
	klog.LogToStderr(false)
	klog.SetOutput(null)
	b.Cleanup(func() { klog.LogToStderr(true); null.Close() })
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
