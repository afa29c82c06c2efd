// Program binding binds the networks of a virtual machine to its launcher pod, in whose network namespace it
// runs, by the code that virt-handler runs there: for a bridge binding, it moves the pod's interface into a
// bridge with a tap for the guest, and puts a dummy in its place. It reads the machine's instance as JSON from
// standard input. It leaves out bindings to the pod network.
//
// Two parts are not virt-handler's. virt-handler makes the tap with an SELinux label, by a program of its own. And a
// bridge without ports takes the dummy's place, because kernels of test machines may lack dummies.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	vishnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	virtv1 "kubevirt.io/api/core/v1"
	diskutils "kubevirt.io/kubevirt/pkg/ephemeral-disk-utils"
	"kubevirt.io/kubevirt/pkg/network/cache"
	"kubevirt.io/kubevirt/pkg/network/driver/netlink"
	"kubevirt.io/kubevirt/pkg/network/driver/nmstate"
	"kubevirt.io/kubevirt/pkg/network/driver/procsys"
	"kubevirt.io/kubevirt/pkg/network/setup/netpod"
	kfs "kubevirt.io/kubevirt/pkg/os/fs"
)

// guestUser is the user of QEMU in launcher pods.
const guestUser = 107

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	instance := &virtv1.VirtualMachineInstance{}
	if err := json.NewDecoder(os.Stdin).Decode(instance); err != nil {
		return fmt.Errorf("reading the instance: %w", err)
	}
	dir, err := os.MkdirTemp("", "binding-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	diskutils.MockDefaultOwnershipManager() // the user of QEMU is in launcher images only
	var interfaces []virtv1.Interface
	var networks []virtv1.Network
	for i, n := range instance.Spec.Networks {
		if n.Multus != nil {
			interfaces, networks = append(interfaces, instance.Spec.Domain.Devices.Interfaces[i]), append(networks, n)
		}
	}
	state := netpod.NewState(states{}, here{})
	pod := netpod.NewNetPod(networks, interfaces, string(instance.UID), os.Getpid(), guestUser, 0, state,
		netpod.WithNMStateAdapter(nmstate.New(nmstate.WithAdapter(kernel{}))), netpod.WithCacheCreator(folder(dir)))
	if err := pod.Setup(); err != nil {
		return fmt.Errorf("binding the networks of instance %s: %w", instance.Name, err)
	}
	return nil
}

// kernel changes the network namespace in which the program runs.
type kernel struct {
	netlink.NetLink
	procsys.ProcSys
}

// LinkAdd makes an interface, and a bridge in place of a dummy.
func (k kernel) LinkAdd(l vishnetlink.Link) error {
	if dummy, ok := l.(*vishnetlink.Dummy); ok {
		l = &vishnetlink.Bridge{LinkAttrs: dummy.LinkAttrs}
	}
	return k.NetLink.LinkAdd(l)
}

// AddTapDeviceWithSELinuxLabel makes a tap without a label.
func (kernel) AddTapDeviceWithSELinuxLabel(name string, mtu, queues, owner, _ int) error {
	tap := &vishnetlink.Tuntap{LinkAttrs: vishnetlink.NewLinkAttrs(), Mode: unix.IFF_TAP, Queues: queues, Owner: uint32(owner), Group: uint32(owner)}
	tap.Name, tap.MTU = name, mtu
	return vishnetlink.LinkAdd(tap)
}

// here runs a function in this process' network namespace.
type here struct{}

func (here) Do(f func() error) error { return f() }

// states keeps how far the binding of each network has come, for the life of the program.
type states map[string]cache.PodIfaceState

func (s states) Read(network string) (cache.PodIfaceState, error) { return s[network], nil }

func (s states) Write(network string, state cache.PodIfaceState) error {
	s[network] = state
	return nil
}

func (s states) Delete(network string) error {
	delete(s, network)
	return nil
}

// folder keeps virt-handler's files below a folder.
type folder string

func (f folder) New(path string) *cache.Cache {
	return cache.NewCustomCache(filepath.Join(string(f), path), kfs.New())
}
