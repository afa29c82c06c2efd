package vm

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/test/lab"
)

// SmallGuest is a virtual machine with one interface, the lane's kernel, and one program. Lanes run it on a tap of
// a pod.
type SmallGuest struct{ kernel, initramfs string }

// lastModule is the last module that a small guest loads.
const lastModule = "virtio_net"

// BuildSmallGuest builds what a small guest needs, and writes its root file system into a folder. init is its
// first process, which finds the modules and their order below /lib/modules.
func BuildSmallGuest(ctx context.Context, dir, init string, out io.Writer) (SmallGuest, error) {
	if err := installPackages(ctx, out); err != nil {
		return SmallGuest{}, fmt.Errorf("preparing a virtual machine: %w", err)
	}
	kernel, err := buildKernel(ctx, lab.Root(), out)
	if err != nil {
		return SmallGuest{}, err
	}
	g := SmallGuest{kernel, filepath.Join(dir, "small-guest")}
	order, err := os.ReadFile(filepath.Join(kernel, modulesDir, "order"))
	if err != nil {
		return g, err
	}
	files := map[string]string{"init": init}
	var loaded []string
	for line := range strings.Lines(string(order)) {
		name := strings.TrimSpace(line)
		loaded = append(loaded, name)
		files["lib/modules/"+name+".ko"] = filepath.Join(kernel, modulesDir, name+".ko")
		if name == lastModule {
			break
		}
	}
	var a archive
	for _, folder := range []string{"dev", "proc"} {
		a.folder(folder)
	}
	a.device("dev/console", 5, 1)
	a.file("lib/modules/order", []byte(strings.Join(loaded, "\n")+"\n"))
	for name, source := range files {
		content, err := os.ReadFile(source)
		if err != nil {
			return g, err
		}
		a.file(name, content)
	}
	return g, os.WriteFile(g.initramfs, a.bytes(), 0o644)
}

// Command returns QEMU and its arguments for a guest whose interface is a tap. The guest finds the parameters, each
// as name=value, on its kernel's command line, and prints to the console, a file.
func (g SmallGuest) Command(tap, mac, console string, parameters ...string) []string {
	return []string{
		qemu, "-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "file:" + console,
		"-machine", "q35", "-accel", "tcg", "-cpu", processor, "-smp", "1", "-m", "256",
		"-kernel", filepath.Join(g.kernel, vmlinuxFile), "-initrd", g.initramfs, "-append", kernelArguments + " " + strings.Join(parameters, " "),
		"-netdev", "tap,id=lan,script=no,downscript=no,vhost=off,ifname=" + tap, "-device", "virtio-net-pci,netdev=lan,mac=" + mac,
	}
}
