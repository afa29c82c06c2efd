package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Unpack downloads Debian packages with apt-get and unpacks them into a folder. It installs
// nothing, so that no service is started on this machine. If apt-get does not know a
// package, Unpack updates the lists of packages.
func Unpack(ctx context.Context, into string, packages ...string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, name := range packages {
		if _, err := runIn(ctx, into, "apt-get", downloading(name)...); err == nil {
			continue
		}
		_, updateErr := runIn(ctx, into, "apt-get", "update", "-q")
		if _, err := runIn(ctx, into, "apt-get", downloading(name)...); err != nil {
			return fmt.Errorf("downloading Debian's package %s: %w", name, errors.Join(err, updateErr))
		}
	}
	archives, err := filepath.Glob(filepath.Join(into, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := runIn(ctx, into, "dpkg-deb", "-x", archive, into); err != nil {
			return err
		}
	}
	return nil
}

// downloading returns the arguments of apt-get for a package. Its own user may
// not be able to write into the folder.
func downloading(name string) []string {
	return []string{"-q", "-o", "APT::Sandbox::User=root", "download", name}
}

// Missing returns a Debian package and those of its dependencies that are not
// installed on this machine.
func Missing(ctx context.Context, name string) ([]string, error) {
	simulate := []string{"-s", "install", "--no-install-recommends", name}
	out, err := runIn(ctx, "", "apt-get", simulate...)
	if err != nil {
		if _, err := runIn(ctx, "", "apt-get", "update", "-q"); err != nil {
			return nil, err
		}
		if out, err = runIn(ctx, "", "apt-get", simulate...); err != nil {
			return nil, fmt.Errorf("resolving the dependencies of Debian's package %s: %w", name, err)
		}
	}
	var packages []string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "Inst "); ok {
			packages = append(packages, strings.Fields(rest)[0])
		}
	}
	return packages, nil
}

// runIn runs a program of this machine in a folder and returns what it prints.
func runIn(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
