package vm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// suite is the lane's folder in the cache.
const suite = "vm"

// The files of a kernel kit.
const (
	vmlinuxFile = "vmlinux"
	modulesDir  = "modules"
	releaseFile = "release"
)

// buildKernel downloads and unpacks the guest's kernel, builds the helper module for it and
// returns their folder. If the cache has none, the package sources decide which kernel it
// is.
func buildKernel(ctx context.Context, root string, out io.Writer) (string, error) {
	helper := filepath.Join(root, "test/vm/lanerdma")
	inputs := []string{filepath.Join(helper, "lanerdma.c"), filepath.Join(helper, "Kbuild")}
	for _, name := range []string{"kernel.go", "modules.go"} {
		inputs = append(inputs, filepath.Join(root, "test/vm", name))
	}
	kit := cluster.Kit{
		Suite: suite, Name: "kernel", Inputs: inputs,
		Make: func(ctx context.Context, into string) error { return makeKernel(ctx, helper, into) },
	}
	return kit.Build(ctx, out)
}

func makeKernel(ctx context.Context, helper, into string) error {
	if err := useBackports(ctx); err != nil {
		return err
	}
	release, err := kernelRelease(ctx)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(into), "unpacked-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := unpackKernel(ctx, release, work); err != nil {
		return fmt.Errorf("unpacking kernel %s: %w", release, err)
	}
	if err := buildHelper(ctx, helper, release, work); err != nil {
		return fmt.Errorf("building lanerdma for kernel %s: %w", release, err)
	}
	if err := extractKernel(ctx, filepath.Join(work, "boot", "vmlinuz-"+release), filepath.Join(into, vmlinuxFile)); err != nil {
		return fmt.Errorf("extracting kernel %s: %w", release, err)
	}
	if err := collectModules(ctx, filepath.Join(work, "lib/modules"), filepath.Join(into, modulesDir)); err != nil {
		return fmt.Errorf("collecting the modules of kernel %s: %w", release, err)
	}
	return os.WriteFile(filepath.Join(into, releaseFile), []byte(release+"\n"), 0o644)
}

// kernelRelease returns the release of the suite's present kernel, such as
// "6.12.95+deb12-amd64". The cloud flavour lacks igb and soft RoCE.
func kernelRelease(ctx context.Context) (string, error) {
	shown, err := run(ctx, "", "apt-cache", "show", "linux-image-amd64/"+backports)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^Depends: linux-image-([^ ,]+)`).FindStringSubmatch(shown)
	if found == nil {
		return "", fmt.Errorf("package linux-image-amd64 of %s depends on no kernel:\n%s", backports, shown)
	}
	return found[1], nil
}

// unpackKernel unpacks the kernel and the packages for building modules. It does not
// install them, because that would change this machine's boot.
func unpackKernel(ctx context.Context, release, into string) error {
	version := strings.TrimSuffix(release, "-amd64")
	var packages []string
	for _, name := range []string{
		"linux-image-" + release, "linux-headers-" + release, "linux-headers-" + version + "-common", "linux-kbuild-" + version,
	} {
		packages = append(packages, name+"/"+backports)
	}
	return lab.Unpack(ctx, into, packages...)
}

// buildHelper builds the lane's own module and adds it to the others.
func buildHelper(ctx context.Context, source, release, work string) error {
	headers := filepath.Join(work, "usr/src/linux-headers-"+release)
	makefile := filepath.Join(headers, "Makefile")
	content, err := os.ReadFile(makefile)
	if err != nil {
		return err
	}
	// The Makefile includes another one by the path of an installed package.
	moved := strings.ReplaceAll(string(content), "include /usr/src/", "include "+work+"/usr/src/")
	if err := os.WriteFile(makefile, []byte(moved), 0o644); err != nil {
		return err
	}
	dir := filepath.Join(work, "lanerdma")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return err
	}
	// Without type information, because its program is missing.
	if _, err := run(ctx, dir, "make", "-s", "-C", headers, "M="+dir, "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"); err != nil {
		return err
	}
	_, err = run(ctx, dir, "strip", "--strip-debug", "-o", filepath.Join(work, "lib/modules", "lanerdma.ko"), "lanerdma.ko")
	return err
}

// extractKernel extracts the kernel from its self-extracting form, which would take the
// emulated processor a second.
func extractKernel(ctx context.Context, vmlinuz, into string) error {
	image, err := os.ReadFile(vmlinuz)
	if err != nil {
		return err
	}
	// The header's fields are in the kernel's Documentation/arch/x86/boot.rst.
	const sectorsAt, offsetAt, lengthAt, headerEnd = 0x1f1, 0x248, 0x24c, 0x250
	if len(image) < headerEnd {
		return errors.New("it is too short")
	}
	start := (int(image[sectorsAt])+1)*512 + int(binary.LittleEndian.Uint32(image[offsetAt:]))
	// The kernel's length follows the compressed kernel.
	end := start + int(binary.LittleEndian.Uint32(image[lengthAt:])) - 4
	if start > end || end > len(image) {
		return fmt.Errorf("its header has the kernel at %d to %d of %d bytes", start, end, len(image))
	}
	compressed := into + ".zst"
	if err := os.WriteFile(compressed, image[start:end], 0o644); err != nil {
		return err
	}
	defer os.Remove(compressed)
	return exec.CommandContext(ctx, "zstd", "-q", "-d", compressed, "-o", into).Run()
}
