//go:build e2e

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// injector makes faults happen, and heals them.
type injector struct {
	*suite
	healing, watching sync.WaitGroup
	// over is closed when no more fail points are to be reached.
	over chan struct{}
	// busy allows one fault of a kind at a time: healing the first must not end the second.
	busy map[kind]*sync.Mutex

	mu       sync.Mutex
	injected int
	reached  map[string]bool
}

func newInjector(s *suite) *injector {
	in := &injector{suite: s, over: make(chan struct{}), busy: map[kind]*sync.Mutex{}, reached: map[string]bool{}}
	for _, k := range []kind{chaosADD, chaosDEL, writeProtect, takePlugin, stopAPIServer, brokenRollOut} {
		in.busy[k] = &sync.Mutex{}
	}
	in.busy[fillDisk] = in.busy[writeProtect] // a read-only file system cannot be filled
	in.busy[slowAPIServer] = in.busy[stopAPIServer]
	return in
}

// errNothing means that a fault had no target.
var errNothing = errors.New("the fault has no target")

// inject makes a fault happen. Faults with a length are healed in the background.
func (in *injector) inject(f fault) {
	in.note("fault: %s", f)
	err := in.do(f)
	switch {
	case errors.Is(err, errNothing):
		in.note("%v", err)
		return
	case err != nil && in.ctx.Err() == nil:
		in.t.Errorf("fault: %s: %v", f, err)
		return
	}
	if f.kind != failPoint { // it counts when it is reached
		in.count()
	}
}

func (in *injector) count() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.injected++
}

func (in *injector) do(f fault) error {
	ctx, n, control := in.ctx, in.node, in.Cluster.ControlPlane()
	switch f.kind {
	case failPoint:
		return in.arm(f.what)
	case killDriver:
		return in.signalDriver("KILL")
	case termDriver:
		return in.signalDriver("TERM")
	case rollOut:
		_, err := in.Cluster.Kubectl(ctx, "-n", "nadra", "rollout", "restart", "daemonset/nadra-node")
		return err
	case killPlugin:
		return in.killPlugin(f.pick)
	case chaosADD, chaosDEL:
		command := strings.TrimPrefix(string(f.kind), "chaos ")
		return in.during(f, func() error { return orderChaos(n, command, f.what) }, func() error { return orderChaos(n, command, "") })
	case killRuntime:
		in.runtimeKilled.Store(true)
		return in.bringDownRuntime(ctx, unix.SIGKILL)
	case restartRuntime:
		return in.bringDownRuntime(ctx, unix.SIGTERM)
	case killKubelet:
		return bringDown(ctx, n.Machine, cluster.Kubelet, unix.SIGKILL)
	case endSandbox:
		return in.endSandbox(f.pick)
	case forceDelete:
		return in.forceDelete(f.pick)
	case fillDisk:
		return in.during(f, in.fill, in.empty)
	case writeProtect:
		return in.during(f, func() error { return in.remount("ro") }, func() error { return in.remount("rw") })
	case takePlugin:
		there, away := filepath.Join(pluginDir, f.what), filepath.Join(pluginDir, ".away-"+f.what)
		return in.during(f, func() error { return in.rename(there, away) }, func() error { return in.rename(away, there) })
	case stopAPIServer:
		return in.during(f,
			func() error { return control.Kill(ctx, cluster.APIServer, unix.SIGSTOP) },
			func() error { return control.Kill(context.WithoutCancel(ctx), cluster.APIServer, unix.SIGCONT) })
	case slowAPIServer:
		var end func() error
		return in.during(f, func() (err error) { end, err = in.slowDown(control); return err }, func() error { return end() })
	case brokenRollOut:
		var end func() error
		return in.during(f, func() (err error) { end, err = in.breakDriver(f.what); return err }, func() error { return end() })
	case cutPower:
		in.runtimeKilled.Store(true)
		return in.cutPower()
	}
	return fmt.Errorf("no such fault: %s", f.kind)
}

// during begins a fault and heals it when its time is over.
func (in *injector) during(f fault, begin, end func() error) error {
	busy := in.busy[f.kind]
	busy.Lock()
	if err := begin(); err != nil {
		busy.Unlock()
		return err
	}
	in.healing.Go(func() {
		defer busy.Unlock()
		pause(in.ctx, f.length)
		if err := end(); err != nil {
			in.t.Errorf("healing: %s: %v", f, err)
		}
		in.note("healed: %s", f)
	})
	return nil
}

// bringDownRuntime ends the runtime and starts it again, while nobody else does.
func (s *suite) bringDownRuntime(ctx context.Context, signal unix.Signal) error {
	s.runtimeDown.Lock()
	defer s.runtimeDown.Unlock()
	return bringDown(ctx, s.node.Machine, s.node.Runtime().Name(), signal)
}

// bringDown ends a component and starts it again.
func bringDown(ctx context.Context, m *cluster.Machine, name string, signal unix.Signal) error {
	if err := m.Kill(ctx, name, signal); err != nil {
		return err
	}
	return bringUp(ctx, m, name)
}

// bringUp starts a component, and retries as systemd would, because a kubelet that finds
// containerd busy with many containers gives up.
func bringUp(ctx context.Context, m *cluster.Machine, name string) error {
	for attempt := 1; ; attempt++ {
		err := m.StartComponent(ctx, name)
		if err == nil || attempt == 20 || m.Running(name) || !pause(ctx, 500*time.Millisecond) {
			return err
		}
	}
}

// slowDown lets the API server run for a fifth of the time only, and kills the driver, which then starts with
// an API server that answers late.
func (in *injector) slowDown(control *cluster.Machine) (end func() error, err error) {
	if err := in.signalDriver("KILL"); err != nil && !errors.Is(err, errNothing) {
		return nil, err
	}
	return control.Slow(cluster.APIServer), nil
}

// breakDriver rolls out the driver with an argument with which it cannot begin. The driver before serves until
// the end, when the arguments are as they were.
func (in *injector) breakDriver(argument string) (end func() error, err error) {
	drivers := in.Kube.AppsV1().DaemonSets("nadra")
	var before []string
	err = persist(in.ctx, "reading the driver's DaemonSet", func(ctx context.Context) error {
		d, err := drivers.Get(ctx, "nadra-node", metav1.GetOptions{})
		if err == nil {
			before = d.Spec.Template.Spec.Containers[0].Args
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	set := func(args []string) error {
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}})
		if err != nil {
			return err
		}
		return persist(in.ctx, "changing the driver's arguments", func(ctx context.Context) error {
			_, err := drivers.Patch(ctx, "nadra-node", types.JSONPatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	return func() error { return set(before) }, set(append(slices.Clone(before), argument))
}

// cutPower reboots the node without the driver's last writes that were not yet on its disk.
func (in *injector) cutPower() error {
	in.healing.Wait() // healing must find the node
	if err := in.signalDriver("STOP"); err != nil && !errors.Is(err, errNothing) {
		return err
	}
	image := filepath.Join(disk(in.Cluster.Dir(), in.node), stateImage)
	onDisk, err := steady(image)
	if err != nil {
		return err
	}
	in.runtimeDown.Lock()
	defer in.runtimeDown.Unlock()
	var writeErr error
	err = cluster.LosePower(in.ctx, in.node, func() {
		writeErr = errors.Join(os.Remove(image), os.WriteFile(image, onDisk, 0o600))
	})
	return errors.Join(err, writeErr)
}

// steady reads a file until it has not changed meanwhile.
func steady(path string) (content []byte, err error) {
	for range 20 {
		last := content
		if content, err = os.ReadFile(path); err != nil || bytes.Equal(content, last) {
			return content, err
		}
	}
	return nil, fmt.Errorf("%s changes all the time", path)
}

// arm makes the driver die when it reaches a fail point.
func (in *injector) arm(point string) error {
	path := failPointFile(in.node, "kill", point)
	if err := order(path, "x"); err != nil {
		return err
	}
	in.watching.Go(func() {
		for isThere(path) { // until the driver removes the order
			select {
			case <-in.over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		in.note("reached: fail point %s", point)
		in.count()
		in.mu.Lock()
		defer in.mu.Unlock()
		in.reached[point] = true
	})
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// finish heals everything, and disarms the fail points that nobody reached.
func (in *injector) finish() (unreached []string) {
	close(in.over)
	in.watching.Wait()
	in.healing.Wait()
	for _, p := range failpoint.Points {
		if err := order(failPointFile(in.node, "kill", string(p)), ""); err != nil {
			in.t.Errorf("disarming fail point %s: %v", p, err)
		}
		if !in.reached[string(p)] {
			unreached = append(unreached, string(p))
		}
	}
	return unreached
}

func (in *injector) signalDriver(signal string) error {
	pid, err := lab.DriverPID(in.node)
	if err != nil {
		return errNothing // it has ended already
	}
	return kill(in.ctx, in.node, signal, pid)
}

// killPlugin waits a little for a plugin to run, and kills it half-way.
func (in *injector) killPlugin(pick int) error {
	for range 300 {
		running, err := plugins(in.node)
		if err == nil && len(running) > 0 {
			return kill(in.ctx, in.node, "KILL", running[pick%len(running)])
		}
		if !pause(in.ctx, 10*time.Millisecond) {
			break
		}
	}
	return errNothing
}

func (in *injector) endSandbox(pick int) error {
	sandboxes := in.checker.sandboxes()
	if len(sandboxes) == 0 {
		return errNothing
	}
	ids := slices.SortedFunc(maps.Keys(sandboxes), func(a, b string) int { return strings.Compare(sandboxes[a], sandboxes[b]) })
	id := ids[pick%len(ids)]
	in.note("the sandbox is that of pod %s", sandboxes[id])
	return in.node.Runtime().EndSandbox(in.ctx, id)
}

// forceDelete removes a pod from the API without its life knowing. It spares pods that stay
// to the end.
func (in *injector) forceDelete(pick int) error {
	var pods []*corev1.Pod
	for _, o := range in.pods.List() {
		if p := o.(*corev1.Pod); p.Labels[stayLabel] == "" {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return errNothing
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	p := pods[pick%len(pods)]
	in.note("the pod is %s", p.Name)
	err := in.Kube.CoreV1().Pods(in.ns).Delete(in.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errNothing // its life has just ended, or begun again, and the list was older
	}
	return err
}

const filler = stateDir + "/.filler"

// fill writes to the driver's file system until there is no room left.
func (in *injector) fill() error {
	path, err := in.node.HostPath(filler)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

func (in *injector) empty() error {
	path, err := in.node.HostPath(filler)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// remount makes the driver's file system read-only, or writable again. The kernel refuses
// while a file is being written.
func (in *injector) remount(how string) error {
	for attempt := 1; ; attempt++ {
		err := sh(in.ctx, in.node, "mount -o remount,"+how+" "+stateDir)
		if err == nil || attempt == 100 || !pause(in.ctx, 20*time.Millisecond) {
			return err
		}
	}
}

func (in *injector) rename(from, to string) error {
	from, err := in.node.HostPath(from)
	if err != nil {
		return err
	}
	if to, err = in.node.HostPath(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
