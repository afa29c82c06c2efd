package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nadra-dev/nadra/test/cluster"
)

// The properties of the virtual machine.
const (
	memory = 2048 // MiB
	cards  = 2
)

// kernelArguments make the kernel boot quickly, without mitigations, which protect nothing
// here, without measuring clocks, and without page faults that only show which NUMA node uses a page.
const kernelArguments = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable " +
	"cryptomgr.notests audit=0 apparmor=0 8250.nr_uarts=1 random.trust_cpu=on rcupdate.rcu_expedited=1 " +
	"intel_iommu=on iommu=pt " +
	"init_on_alloc=0 randomize_kstack_offset=off nowatchdog psi=0 transparent_hugepage=never lsm=capability numa_balancing=disable"

// processor is QEMU's best one, without features that protect a kernel, because each of
// these slows down emulated memory. Without fast string instructions the kernel and Go copy and clear
// memory by words: QEMU emulates such an instruction byte by byte.
const processor = "max,la57=off,smap=off,smep=off,umip=off,pku=off,pks=off,erms=off,fsrm=off"

// machine is a running QEMU.
type machine struct {
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // the error of its end
	console string
}

// startMachine starts QEMU in the network of the control plane, where the guest's uplink
// is. The end of the cluster kills it at the latest.
func startMachine(ctx context.Context, c *cluster.Cluster, kernel, initramfs, disk, console string) *machine {
	// It outlives the context, so that its logs can be read after a failure.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m := &machine{cancel: cancel, ended: make(chan struct{}), console: console}
	host := c.ControlPlane()
	// An emulated machine without CPU time misses its own time limits, so it has priority over other
	// lanes. Its kubelet and runtime also compute while tests wait: beside others it needs twice the
	// time, and twice the CPU time.
	cmd := host.Command(ctx, "nice", append([]string{"-n", "-15", qemu}, qemuArguments(c.Guests()[0], kernel, initramfs, disk, console)...)...)
	printed := &tailWriter{}
	cmd.Stdout, cmd.Stderr = printed, printed
	go func() {
		defer close(m.ended)
		m.err = fmt.Errorf("the virtual machine has ended: %w\n%s", orDone(host.Run(cmd)), printed)
	}()
	return m
}

// orDone returns an error for the end of a process, also if that had none.
func orDone(err error) error {
	if err == nil {
		return errors.New("it has powered off")
	}
	return err
}

// stop kills the virtual machine.
func (m *machine) stop() {
	m.cancel()
	<-m.ended
}

// consoleTail returns the last lines of the kernel and the agent.
func (m *machine) consoleTail() string {
	content, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(content), 30)
}

func qemuArguments(g *cluster.Guest, kernel, initramfs, disk, console string) []string {
	args := []string{
		"-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "file:" + console,
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", processor, "-smp", "2", "-m", strconv.Itoa(memory),
		"-kernel", filepath.Join(kernel, vmlinuxFile), "-initrd", initramfs, "-append", kernelArguments,
		"-device", "intel-iommu",
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file=" + disk, "-device", "virtio-blk-pci,drive=disk",
		"-netdev", "tap,id=uplink,script=no,downscript=no,ifname=" + g.Tap(),
		"-device", "virtio-net-pci,netdev=uplink,mac=" + g.MAC().String(),
	}
	for card := range cards {
		args = append(args, cardArguments(card)...)
	}
	return args
}

// cardArguments returns QEMU's arguments for a NUMA node with half of the memory and one
// processor, a PCIe root on it, and an igb in a port of that. All cards are on one hub.
func cardArguments(card int) []string {
	id := strconv.Itoa(card)
	return []string{
		"-object", fmt.Sprintf("memory-backend-ram,id=ram%s,size=%dM", id, memory/cards),
		"-numa", fmt.Sprintf("node,nodeid=%s,cpus=%s,memdev=ram%s", id, id, id),
		"-device", fmt.Sprintf("pxb-pcie,id=root%s,bus=pcie.0,bus_nr=%d,numa_node=%s", id, 0x20*(card+1), id),
		"-device", fmt.Sprintf("pcie-root-port,id=port%s,bus=root%s,slot=%s,chassis=%s", id, id, id, id),
		"-netdev", fmt.Sprintf("hubport,id=lan%s,hubid=0", id),
		"-device", fmt.Sprintf("igb,bus=port%s,netdev=lan%s,mac=52:54:00:11:00:0%s", id, id, id),
	}
}

// tailWriter keeps the end of a program's output.
type tailWriter struct{ text []byte }

func (w *tailWriter) Write(b []byte) (int, error) {
	const most = 4096
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-most):]
	return len(b), nil
}

func (w *tailWriter) String() string { return string(w.text) }
