package main

import (
	"context"
	"io"
	"path/filepath"
	"slices"

	"github.com/nadra-dev/nadra/internal/nodecmd"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// runUninstall reports what nadra has on the node, and what it removed.
func runUninstall(_ context.Context, args []string, out io.Writer) error {
	var o nodecmd.UninstallOptions
	var plugins, registry, cdi string
	fs := newFlagSet("uninstall")
	fs.StringVar(&o.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "directory of nadra's state, in the host")
	fs.StringVar(&plugins, "kubelet-plugins-dir", "/var/lib/kubelet/plugins", "the kubelet's plugins directory, in the host")
	fs.StringVar(&registry, "kubelet-registry-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's plugin registration directory, in the host")
	fs.StringVar(&cdi, "cdi-dir", "/var/run/cdi", "directory of the driver's CDI specs, in the host")
	fs.BoolVar(&o.Remove, "remove", false, "remove nadra's files, unless a pod still needs them")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	o.Patterns = []string{
		filepath.Join(plugins, v1alpha1.DriverName),
		filepath.Join(registry, v1alpha1.DriverName+"-*reg.sock"),
		filepath.Join(registry, v1alpha1.DriverName+"-reg.sock"),
		filepath.Join(cdi, v1alpha1.DriverName+"-*"),
	}
	report := nodecmd.Uninstall(o)
	slices.Sort(report.Paths)
	return writeReport(out, report)
}
