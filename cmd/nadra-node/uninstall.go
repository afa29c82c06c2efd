package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/nadra-dev/nadra/internal/uninstall/host"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// uninstallCommand is the subcommand that `kubectl nadra uninstall` has a pod run
// on a node.
const uninstallCommand = "uninstall"

// runUninstall writes one line of JSON.
func runUninstall(args []string, w io.Writer) error {
	var o host.Options
	var plugins, registry, cdi string
	fs := flag.NewFlagSet("nadra-node "+uninstallCommand, flag.ContinueOnError)
	fs.StringVar(&o.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "nadra's state, in the host")
	fs.StringVar(&plugins, "kubelet-plugins-dir", "/var/lib/kubelet/plugins", "the kubelet's plugins directory, in the host")
	fs.StringVar(&registry, "kubelet-registry-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's plugin registration directory, in the host")
	fs.StringVar(&cdi, "cdi-dir", "/var/run/cdi", "where the driver has written CDI specs, in the host")
	fs.BoolVar(&o.Remove, "remove", false, "remove what is nadra's, where nothing is left to be done")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("reading the arguments: %q is none", fs.Arg(0))
	}
	o.Patterns = []string{
		filepath.Join(plugins, v1alpha1.DriverName),
		filepath.Join(registry, v1alpha1.DriverName+"-*reg.sock"),
		filepath.Join(registry, v1alpha1.DriverName+"-reg.sock"),
		filepath.Join(cdi, v1alpha1.DriverName+"-*"),
	}
	report := host.Run(o)
	slices.Sort(report.Paths)
	if err := json.NewEncoder(w).Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
