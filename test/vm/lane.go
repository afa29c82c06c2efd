package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// The numbers of virtual functions on each card, and of those with an RDMA device.
const (
	VFs     = 4
	RDMAVFs = 2
)

// SRIOVVariable is the environment variable with the path of a built sriov-cni, which is
// not available as a Go module.
const SRIOVVariable = "SRIOV_CNI"

// DevicePluginVariable is the environment variable with the path of a built SR-IOV device plugin, which
// is not available as a Go module. The lane's own one takes its place.
const DevicePluginVariable = "SRIOV_DEVICE_PLUGIN"

// Lane is a cluster with nadra whose only node is the guest.
type Lane struct {
	*lab.Lab
	Guest *Guest
	// Sysfs is the record of the guest's network cards after boot.
	Sysfs string
}

// Start builds what is missing, starts a control plane with its files in dir, boots the
// guest, and installs nadra on it.
func Start(ctx context.Context, dir string, out io.Writer) (*Lane, error) {
	out = &stopwatch{out: out, start: time.Now()}
	p, err := build(ctx, out)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), Guests: 1, Out: out,
		NRITimeout: 2 * time.Minute, // a plugin takes a tenth of a second to start
	})
	if err != nil {
		return nil, err
	}
	l := &Lane{}
	if l.Lab, err = lab.New(c); err == nil {
		err = l.bringUp(ctx, dir, p, out)
	}
	if err != nil {
		return nil, errors.Join(err, l.saveLogs(ctx, out), l.Stop(ctx))
	}
	return l, nil
}

// guestPlugins has the CNI plugins, by name, that need drivers of the guest's kernel, or
// iptables. Nodes of other lanes lack them, and so do not publish NADs with them.
var guestPlugins = map[string]string{
	"dummy":    "github.com/containernetworking/plugins/plugins/main/dummy",
	"firewall": "github.com/containernetworking/plugins/plugins/meta/firewall",
	"ipvlan":   "github.com/containernetworking/plugins/plugins/main/ipvlan",
	"portmap":  "github.com/containernetworking/plugins/plugins/meta/portmap",
	"rdma":     "github.com/k8snetworkplumbingwg/rdma-cni/cmd/rdma",
	"vlan":     "github.com/containernetworking/plugins/plugins/main/vlan",
	"vrf":      "github.com/containernetworking/plugins/plugins/meta/vrf",
}

// build builds everything that the lane runs.
func build(ctx context.Context, out io.Writer) (p parts, err error) {
	if err := installPackages(ctx, out); err != nil {
		return p, fmt.Errorf("the lane of the virtual machine lacks what it runs on: %w", err)
	}
	if p.kernel, err = buildKernel(ctx, lab.Root(), out); err != nil {
		return p, err
	}
	if p.iptables, err = collectIPTables(ctx, lab.Root(), out); err != nil {
		return p, err
	}
	for folder, path := range map[string]*string{"test/vm/agent": &p.agent, "test/otherdriver": &p.other, "test/vm/deviceplugin": &p.devices} {
		*path, err = cluster.Program{
			Suite: suite, Name: filepath.Base(folder), Dir: ".", Package: "./" + folder, Sources: []string{folder + "/*.go", "test/vm/wire/*.go"},
		}.Build(ctx, out)
		if err != nil {
			return p, err
		}
	}
	if p.multus, err = cluster.BuildMultus(ctx, out); err != nil {
		return p, err
	}
	for name, source := range guestPlugins {
		program, err := cluster.Program{Suite: suite, Name: name, Dir: "test/vm/plugins", Package: source}.Build(ctx, out)
		if err != nil {
			return p, err
		}
		p.plugins = append(p.plugins, program)
	}
	p.sriov, p.sriovDP = os.Getenv(SRIOVVariable), os.Getenv(DevicePluginVariable)
	for variable, path := range map[string]string{SRIOVVariable: p.sriov, DevicePluginVariable: p.sriovDP} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return p, fmt.Errorf("looking for the program that %s names: %w", variable, err)
		}
	}
	return p, nil
}

// bringUp boots the guest, makes it a node and installs nadra.
func (l *Lane) bringUp(ctx context.Context, dir string, p parts, out io.Writer) error {
	c := l.Cluster
	initramfs, disk := filepath.Join(dir, "initramfs"), filepath.Join(dir, "disk")
	if err := p.writeInitramfs(initramfs); err != nil {
		return fmt.Errorf("writing the guest's initramfs: %w", err)
	}
	g := c.Guests()[0]
	boot := wire.Boot{Hostname: g.Name(), Uplink: g.MAC().String(), Address: g.IP(), Gateway: g.Gateway(), VFs: VFs, RDMA: RDMAVFs}
	images, err := filepath.Glob(filepath.Join(c.Artifacts().Images, "*.tar"))
	if err != nil {
		return err
	}
	if err := writeDisk(ctx, disk, p, c, boot, append(images, lab.ImageArchive())); err != nil {
		return fmt.Errorf("writing the guest's disk: %w", err)
	}
	fmt.Fprintln(out, "booting the guest …")
	start := func() *Guest {
		return newGuest(c, startMachine(ctx, c, p.kernel, initramfs, disk, filepath.Join(c.LogDir(), "console.log")))
	}
	l.Guest = start()
	// The API server need not wait for the guest.
	if err := l.install(ctx); err != nil {
		return fmt.Errorf("installing nadra: %w", err)
	}
	if err := l.Guest.waitAgent(ctx); err != nil {
		// This was seen once: the emulated machine printed nothing, not even its first
		// line.
		fmt.Fprintln(out, "booting the guest again:", err)
		l.Guest.machine.stop()
		l.Guest = start()
		if err := l.Guest.waitAgent(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "the guest has booted")
	if l.Sysfs, err = l.Guest.Run(ctx, "agent", "sysfs"); err != nil {
		return err
	}
	if err := l.becomeNode(ctx, out); err != nil {
		return fmt.Errorf("making the guest a node: %w", err)
	}
	if err := l.WaitDriver(ctx); err != nil {
		return fmt.Errorf("waiting for nadra on the guest: %w\n%s", err, l.DriverLog(ctx))
	}
	fmt.Fprintln(out, "nadra publishes networks")
	return nil
}

// slowly has the driver's time limits of the manifests, and those of an emulated machine, where everything takes
// twenty times as long: within the hook's usual second no DEL would start before the pod's network namespace ends,
// and a probe runs a program in the container, which takes longer than 5 s, and half of the machine if it is asked
// every 10 s.
var slowly = []struct{ usual, here string }{
	{"- --host-root=/host\n", "- --host-root=/host\n        - --hook-budget=90s\n        - --device-metadata\n"},
	{"periodSeconds: 1\n          timeoutSeconds: 5\n", "periodSeconds: 5\n          timeoutSeconds: 60\n"},    // started
	{"periodSeconds: 60\n          timeoutSeconds: 10\n", "periodSeconds: 60\n          timeoutSeconds: 60\n"}, // live
	{"periodSeconds: 10\n          timeoutSeconds: 5\n", "periodSeconds: 60\n          timeoutSeconds: 60\n"},  // ready
}

// install applies nadra's manifests as lab.Install does, with longer time limits for the driver.
func (l *Lane) install(ctx context.Context) error {
	if err := l.InstallCRD(ctx); err != nil {
		return err
	}
	manifests, err := l.Cluster.Kubectl(ctx, "kustomize", filepath.Join(lab.Root(), "manifests", "base"))
	if err != nil {
		return err
	}
	for _, limit := range slowly {
		if strings.Count(manifests, limit.usual) != 1 {
			return fmt.Errorf("manifests/base has %q not exactly once", limit.usual)
		}
		manifests = strings.Replace(manifests, limit.usual, limit.here, 1)
	}
	return l.Apply(ctx, manifests)
}

// becomeNode starts containerd and the kubelet, which waits for containerd.
func (l *Lane) becomeNode(ctx context.Context, out io.Writer) error {
	g := l.Guest
	commands := g.Commands()
	for _, command := range commands {
		if err := g.Daemon(ctx, logOf(command), command...); err != nil {
			return err
		}
	}
	bootID, err := g.bootID(ctx)
	if err != nil {
		return err
	}
	if err := g.WaitReady(ctx, bootID); err != nil {
		printed, logErr := g.Run(ctx, "tail", "-n", "5", logOf(commands[1]))
		return errors.Join(fmt.Errorf("%w\nlast in its log:\n%s", err, printed), logErr)
	}
	fmt.Fprintln(out, "the node is ready")
	return nil
}

// logOf returns the log file of a daemon of the guest.
func logOf(command []string) string { return "/var/log/" + command[0] + ".log" }

// Stop stops the guest and the cluster, which leave nothing behind.
func (l *Lane) Stop(ctx context.Context) error {
	if l.Guest != nil {
		l.Guest.machine.stop()
	}
	return l.Cluster.Stop(context.WithoutCancel(ctx))
}

// SaveLogs copies the logs of the cluster and of the guest to the cache, and returns
// their folder.
func (l *Lane) SaveLogs(ctx context.Context) (string, error) {
	var problems error
	if l.Guest != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		for _, command := range l.Guest.Commands() {
			content, err := l.Guest.Run(ctx, "cat", logOf(command))
			problems = errors.Join(problems, err, os.WriteFile(filepath.Join(l.Cluster.LogDir(), command[0]+".log"), []byte(content), 0o644))
		}
	}
	folder, err := l.Cluster.SaveLogs(suite)
	return folder, errors.Join(problems, err)
}

func (l *Lane) saveLogs(ctx context.Context, out io.Writer) error {
	folder, err := l.SaveLogs(ctx)
	fmt.Fprintln(out, "the logs are in", folder)
	return err
}

// stopwatch writes the time since its start before each line.
type stopwatch struct {
	out   io.Writer
	start time.Time
}

func (s *stopwatch) Write(b []byte) (int, error) {
	_, err := fmt.Fprintf(s.out, "%6.1fs %s", time.Since(s.start).Seconds(), b)
	return len(b), err
}
