package cluster

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// prerequisite is a requirement of a build or a test that is not a Go module.
type prerequisite struct {
	packages []string // of Debian, that have it
	building bool     // it is needed to build, not to run
	missing  func(ctx context.Context) error
}

// prerequisites lists the requirements that a machine with only Go and git may lack.
func prerequisites() []prerequisite {
	all := []prerequisite{
		{packages: []string{"gcc", "libc6-dev", "libseccomp-dev"}, building: true, missing: compileSeccomp},
		{packages: []string{"busybox-static"}, building: true, missing: func(context.Context) error {
			_, err := findBusybox()
			return err
		}},
		// The fault suite fills a file system of its own.
		{packages: []string{"e2fsprogs", "mount"}, missing: func(context.Context) error {
			_, err := exec.LookPath("mkfs.ext4")
			if err == nil {
				_, err = exec.LookPath("losetup")
			}
			return err
		}},
		{packages: []string{"iproute2"}, missing: func(context.Context) error {
			_, err := exec.LookPath("ip")
			return err
		}},
	}
	if wantsCRIO() {
		all = append(all, prerequisite{packages: []string{"conmon"}, missing: func(context.Context) error {
			_, err := exec.LookPath("conmon")
			return err
		}})
	}
	return all
}

// installPrerequisites installs missing packages for building or for running a cluster. It
// can do so as root on Debian and its relatives; otherwise its error names the packages to
// install.
func installPrerequisites(ctx context.Context, building bool, out io.Writer) error {
	packages, problem := missingPackages(ctx, building)
	if problem == nil {
		return nil
	}
	names := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("the cluster needs the Debian packages %s, or what they contain; install them first: %w", names, problem)
	}
	s := announce(out, "installing "+names)
	err := installPackages(ctx, packages)
	if err == nil {
		_, err = missingPackages(ctx, building)
	}
	if err != nil {
		s.finish("stopped")
		return fmt.Errorf("installing %s: %w", names, err)
	}
	s.finish("done")
	return nil
}

// missingPackages returns the packages to install, and why.
func missingPackages(ctx context.Context, building bool) (packages []string, problem error) {
	for _, p := range prerequisites() {
		if p.building && !building {
			continue
		}
		if err := p.missing(ctx); err != nil {
			packages = append(packages, p.packages...)
			problem = errors.Join(problem, err)
		}
	}
	return packages, problem
}

func installPackages(ctx context.Context, packages []string) error {
	if err := run(ctx, "apt-get", "update", "-q"); err != nil {
		return err
	}
	args := append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends"}, packages...)
	return run(ctx, "env", args...)
}

// compileSeccomp tries the requirements of linking runc: a C compiler and the static
// library of seccomp.
func compileSeccomp(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "nadra-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const program = "#include <seccomp.h>\nint main(void) { return seccomp_api_get() == 0; }\n"
	cmd := exec.CommandContext(ctx, "gcc", "-static", "-x", "c", "-", "-o", filepath.Join(dir, "try"), "-lseccomp")
	cmd.Stdin = strings.NewReader(program)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("linking with libseccomp: %w\n%s", err, tail(output, 3))
	}
	return nil
}

// findBusybox finds a busybox that runs in an image where it is the only file.
func findBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	program, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is not a static program", path)
		}
	}
	return path, nil
}
