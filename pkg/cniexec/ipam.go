package cniexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
)

// releaseAddresses runs the DEL of the list's IPAM plugins alone, for a network namespace
// that is gone. The plugin that delegates to an IPAM plugin should have run it, but
// host-device does nothing at all without a namespace (v1.9.1), and a later plugin in the
// chain may have failed without one: the address would be lost. Repeating a DEL is
// harmless (CNI specification, § "DEL").
func (r *Runner) releaseAddresses(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	var errs []error
	for _, plugin := range list.Plugins {
		ipam := plugin.Network.IPAM.Type
		if ipam == "" {
			continue
		}
		if err := r.delIPAM(ctx, list, plugin, ipam, rt); err != nil {
			errs = append(errs, fmt.Errorf("releasing the addresses that IPAM plugin %s keeps for %s: %w", ipam, rt.IfName, err))
		}
	}
	return errors.Join(errs...)
}

// delIPAM runs the DEL of one IPAM plugin.
func (r *Runner) delIPAM(ctx context.Context, list *libcni.NetworkConfigList, plugin *libcni.PluginConfig, ipam string, rt *libcni.RuntimeConf) error {
	path, err := r.exec.FindInPath(ipam, r.dirs)
	if err != nil {
		return err
	}
	// libcni does the same for the plugins of a list.
	conf, err := libcni.InjectConf(plugin, map[string]any{"name": list.Name, "cniVersion": list.CNIVersion})
	if err != nil {
		return err
	}
	return invoke.ExecPluginWithoutResult(ctx, path, conf.Bytes, &invoke.Args{
		Command: "DEL", ContainerID: rt.ContainerID, NetNS: "", PluginArgs: rt.Args, IfName: rt.IfName,
		Path: strings.Join(r.dirs, string(os.PathListSeparator)),
	}, r.exec)
}
