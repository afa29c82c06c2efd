package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// backports is the suite of QEMU and the kernel, because Debian 12's own QEMU has no igb.
const backports = "bookworm-backports"

// qemu is the emulator.
const qemu = "qemu-system-x86_64"

// tools has the programs that the lane runs, with their packages.
var tools = []struct{ program, pkg string }{
	{"gcc", "gcc"},
	{"make", "make"},
	{"strip", "binutils"},
	{"xz", "xz-utils"},
	{"zstd", "zstd"},
	{"mkfs.ext4", "e2fsprogs"},
	{"busybox", "busybox-static"},
}

// installPackages installs missing packages. On a machine without apt, or without root's
// rights, its error names the packages to install.
func installPackages(ctx context.Context, out io.Writer) error {
	if missing := missingTools(); len(missing) > 0 {
		fmt.Fprintln(out, "installing", strings.Join(missing, " "))
		if err := apt(ctx, "update", "-q"); err != nil {
			return err
		}
		if err := apt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
			return fmt.Errorf("installing %s: %w", strings.Join(missing, " "), err)
		}
	}
	if hasIGB(ctx) == nil {
		return nil
	}
	fmt.Fprintln(out, "installing qemu-system-x86 from", backports)
	if err := useBackports(ctx); err != nil {
		return err
	}
	if err := apt(ctx, "install", "-y", "--no-install-recommends", "-t", backports, "qemu-system-x86"); err != nil {
		return fmt.Errorf("installing qemu-system-x86: %w", err)
	}
	return hasIGB(ctx)
}

func missingTools() (packages []string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			packages = append(packages, t.pkg)
		}
	}
	return packages
}

// hasIGB returns an error unless QEMU is installed and supports the card.
func hasIGB(ctx context.Context) error {
	output, err := run(ctx, "", qemu, "-device", "help")
	if err != nil {
		return err
	}
	if !strings.Contains(output, `name "igb"`) {
		return fmt.Errorf("%s has no igb card: version 8 or later is needed", qemu)
	}
	return nil
}

// backportsEntry is the lane's own entry of package sources.
const backportsEntry = "/etc/apt/sources.list.d/nadra-backports.list"

// useBackports adds the suite to apt's sources, with the address of the machine's own
// sources.
func useBackports(ctx context.Context) error {
	known, err := run(ctx, "", "apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages")
	if err != nil {
		return fmt.Errorf("asking apt for its sources (the lane needs Debian 12 or its packages): %w", err)
	}
	if strings.Contains(known, " "+backports+"\n") {
		return apt(ctx, "update", "-q")
	}
	site, err := debianSite(known)
	if err != nil {
		return err
	}
	entry := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + site + " " + backports + " main\n"
	if err := os.WriteFile(backportsEntry, []byte(entry), 0o644); err != nil {
		return fmt.Errorf("adding %s to the package sources: %w", backports, err)
	}
	return apt(ctx, "update", "-q")
}

// debianSite returns the address of Debian from lines of address and suite.
func debianSite(known string) (string, error) {
	for line := range strings.Lines(known) {
		site, suite, _ := strings.Cut(strings.TrimSpace(line), " ")
		if suite == "bookworm" && strings.HasSuffix(site, "/debian") {
			return site, nil
		}
	}
	return "", errors.New("apt has no source of Debian 12 (bookworm): install a qemu-system-x86_64 with igb, and give the package sources bookworm-backports")
}

// apt runs apt-get, which fails without root's rights.
func apt(ctx context.Context, args ...string) error {
	// Other programs hold apt's locks only for moments.
	args = append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=120"}, args...)
	_, err := run(ctx, "", "env", args...)
	return err
}

// run runs a program of this machine in a folder and returns its output.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return string(output), fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(stderr.String(), 20))
	}
	return string(output), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
