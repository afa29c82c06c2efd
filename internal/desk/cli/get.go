package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/report"
)

const getHelp = `List the networks of pods, one row for every network of every pod.

States:
  Waiting      there is no claim, or no device is allocated to it
  Allocated    a device is allocated, and the pod is not bound to a node yet
  Preparing    the node has not reported a result yet
  Attached     the interface is in the pod; a note says so if there is no claim
  CheckFailed  the interface is attached, but a CHECK found that it has changed
  Failed       preparing or attaching failed; -o wide shows why
  Removed      an edit of the running pod's annotation removed the network
  Multus       there is no claim, and Multus attached the network
  Unserved     the pod runs, and the network is not attached
  Unclaimed    the network is in network-status, and the pod did not request it
  Ended        the pod has ended
  Gone         with --watch: the row no longer exists

-o name and other formats for objects name an attachment POD.INTERFACE, or
POD.NETWORK before it has an interface.`

const getExamples = `  # networks in the current namespace, with device, claim, MAC and message
  kubectl nadra get attachments -o wide
  # all networks on one node
  kubectl nadra get attachments -A --node worker-3
  # watch which pods use a network
  kubectl nadra get attachments -A --nad storage/fast -w
  # a table of your own, and only the addresses of one pod
  kubectl nadra get attachments -o custom-columns=POD:.pod,MAC:.mac
  kubectl nadra get attachments web -o jsonpath='{.items[*].ips}'`

type getOptions struct {
	*app
	allNamespaces, watch, noHeaders bool
	selector                        string
	filter                          inspect.Filter
	print                           *printFlags

	cluster inspect.Cluster
	// printer is nil for tables.
	printer printers.ResourcePrinter
	table   inspect.Table
	changes inspect.Changes
}

func (a *app) get() *cobra.Command {
	return group(&cobra.Command{Use: "get", Short: "List objects that only nadra knows"}, a.getAttachments(), a.getNetworks())
}

func (a *app) getAttachments() *cobra.Command {
	o := &getOptions{app: a}
	command := naming("attachments [POD ...]", "List the networks of pods", getHelp, getExamples, o.run)
	command.Aliases = []string{"attachment", "att"}
	flags := command.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list pods of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "after listing, print rows again when they change")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "do not print headers")
	flags.StringVarP(&o.selector, "selector", "l", "", "list only pods with these labels")
	flags.StringVar(&o.filter.Node, "node", "", "list only pods on this node")
	flags.StringVar(&o.filter.Network, "nad", "", "list only this NetworkAttachmentDefinition, as [NAMESPACE/]NAME")
	o.print = addPrintFlags(command, "table", "wide")
	return command
}

func (o *getOptions) run(ctx context.Context, names []string) error {
	o.filter.Pods = names
	var err error
	if o.printer, err = o.print.toPrinter(o.noHeaders); err != nil {
		return err
	}
	if o.filter.Labels, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("reading --selector: %w", err)
	}
	if o.cluster, err = o.app.cluster.live(); err != nil {
		return err
	}
	if o.allNamespaces {
		o.cluster.Namespace = ""
	}
	o.table = inspect.Table{Namespaces: o.allNamespaces, Wide: o.print.format() == "wide", NoHeaders: o.noHeaders, Show: report.Visible}
	if o.watch {
		o.changes.Narrow = o.print.format() == "table"
		return o.cluster.Watch(ctx, o.printChanges)
	}
	in, err := o.cluster.Read(ctx)
	if err != nil {
		return err
	}
	return o.printAll(in)
}

// rows returns the attachments that pass the filter.
func (o *getOptions) rows(in inspect.Input) []inspect.Attachment {
	return o.filter.Apply(inspect.Attachments(in), in.Pods)
}

// printAll prints the attachments of the input.
func (o *getOptions) printAll(in inspect.Input) error {
	for _, name := range o.filter.Pods {
		if !slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			return fmt.Errorf("listing attachments: pod %q does not exist%s", name, o.where())
		}
	}
	rows := o.rows(in)
	switch {
	case o.printer != nil:
		return printItems(o.Out, o.printer, inspect.NewList(nil).TypeMeta, rows, func(a inspect.Attachment) (any, string, string) {
			return inspect.NewOne(a), a.Namespace, attachmentName(a)
		})
	case len(rows) == 0:
		_, err := fmt.Fprintf(o.ErrOut, "No attachments found%s.\n", o.where())
		return err
	}
	return o.table.Print(o.Out, rows)
}

// attachmentName returns a name for an attachment: those of its pod and its interface, or of
// its network while it has no interface. A claim without a pod gives its own.
func attachmentName(a inspect.Attachment) string {
	network := ""
	if a.Network != nil {
		network = a.Network.Name
	}
	return cmp.Or(a.Pod, a.Claim) + "." + cmp.Or(a.Interface, network, a.Request)
}

// where returns the namespace for a message, or "" for all.
func (o *getOptions) where() string {
	if o.cluster.Namespace == "" {
		return ""
	}
	return " in namespace " + o.cluster.Namespace
}

// printChanges prints the rows that have changed since the last call.
func (o *getOptions) printChanges(in inspect.Input) error {
	rows := o.changes.Next(o.rows(in))
	if len(rows) == 0 {
		return nil
	}
	if o.printer == nil {
		return o.table.Print(o.Out, rows)
	}
	for _, a := range rows {
		if err := printObject(o.Out, o.printer, inspect.NewOne(a), a.Namespace, attachmentName(a)); err != nil {
			return err
		}
	}
	return nil
}
