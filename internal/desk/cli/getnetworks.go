package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/report"
)

const getNetworksHelp = `List networks, and the nodes that offer them.

A network is a NetworkAttachmentDefinition. A node offers it if a device in its
ResourceSlices lists the network's ID, or if the node has a device of the
resource pool from which the network draws. "kubectl nadra explain" says why a
pod's network is offered by no node.`

const getNetworksExamples = `  # networks of the current namespace, and the number of nodes that offer each
  kubectl nadra get networks
  # the ID, the DeviceClass and the nodes of one network
  kubectl nadra get networks macvlan-conf -o wide
  # names of networks that no node offers
  kubectl nadra get networks -A -o json | jq -r '.items[] | select(.nodes == null) | .metadata.namespace + "/" + .metadata.name'`

func (a *app) getNetworks() *cobra.Command {
	var allNamespaces, noHeaders bool
	var format *printFlags
	command := naming("networks [NAME ...]", "List networks and the nodes that offer them", getNetworksHelp, getNetworksExamples,
		func(ctx context.Context, names []string) error {
			return a.printNetworks(ctx, names, allNamespaces, noHeaders, format)
		},
	)
	command.Aliases = []string{"network", "net"}
	flags := command.Flags()
	flags.BoolVarP(&allNamespaces, "all-namespaces", "A", false, "list networks of all namespaces")
	flags.BoolVar(&noHeaders, "no-headers", false, "do not print headers")
	format = addPrintFlags(command, "table", "wide")
	return command
}

// printNetworks prints the networks with these names, or all.
func (a *app) printNetworks(ctx context.Context, names []string, allNamespaces, noHeaders bool, format *printFlags) error {
	printer, err := format.toPrinter(noHeaders)
	if err != nil {
		return err
	}
	cluster, err := a.cluster.live()
	if err != nil {
		return err
	}
	in, err := cluster.ReadNetworks(ctx)
	if err != nil {
		return err
	}
	for _, kind := range []inspect.Kind{inspect.Networks, inspect.Slices} {
		if in.Unread[kind] {
			return fmt.Errorf("listing networks: you may not list %s in the whole cluster: ask for the right, or use another account", kind)
		}
	}
	where := " in namespace " + cluster.Namespace
	if allNamespaces {
		where = ""
	}
	networks := slices.DeleteFunc(inspect.OfferedNetworks(in), func(n inspect.Network) bool {
		return !allNamespaces && n.Namespace != cluster.Namespace || len(names) > 0 && !slices.Contains(names, n.Name)
	})
	for _, name := range names {
		if !slices.ContainsFunc(networks, func(n inspect.Network) bool { return n.Name == name }) {
			return fmt.Errorf("listing networks: NetworkAttachmentDefinition %q does not exist%s", name, where)
		}
	}
	if printer == nil {
		if len(networks) == 0 {
			_, err := fmt.Fprintf(a.ErrOut, "No networks found%s.\n", where)
			return err
		}
		table := inspect.Table{Namespaces: allNamespaces, Wide: format.format() == "wide", NoHeaders: noHeaders, Show: report.Visible}
		return table.PrintNetworks(a.Out, networks)
	}
	return printItems(a.Out, printer, inspect.NetworkList(), networks, func(n inspect.Network) (any, string, string) {
		return n, n.Namespace, n.Name
	})
}
