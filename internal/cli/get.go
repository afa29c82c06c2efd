package cli

import (
	"context"
	"fmt"
	"slices"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/inspect"
	"github.com/nadra-dev/nadra/internal/inspectread"
)

const getHelp = `List what is attached to which pod: one row for every network of every pod.

States:
  Waiting      there is no claim, or nothing is allocated for it
  Allocated    a device is allocated, the pod not bound to a node yet
  Preparing    the node has not said yet what became of it
  Attached     the interface is in the pod
  CheckFailed  attached, but a CHECK says that it is not as it was made
  Failed       preparing or attaching has failed; -o wide says why
  Multus       there is no claim, and Multus has attached it
  Unserved     the pod runs, and nobody has attached it
  Unclaimed    network-status has it, and nobody asked for it
  Ended        the pod has ended
  Gone         with --watch: the row is not there any more`

const getExamples = `  # of the current namespace, with device, claim, MAC and message
  kubectl nadra get attachments -o wide
  # everything on one node
  kubectl nadra get attachments -A --node worker-3
  # who uses a network, and as it changes
  kubectl nadra get attachments -A --nad storage/fast -w`

var getFormats = []string{"table", "wide", "json", "yaml"}

type getOptions struct {
	*app
	allNamespaces, watch, noHeaders bool
	selector, format                string
	filter                          inspect.Filter
	cluster                         inspectread.Cluster
	table                           inspect.Table
	changes                         inspect.Changes
}

func (a *app) get() *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "List what there is in the cluster"}
	command.AddCommand(a.getAttachments())
	return command
}

func (a *app) getAttachments() *cobra.Command {
	o := &getOptions{app: a}
	command := &cobra.Command{
		Use:     "attachments [POD ...]",
		Aliases: []string{"attachment", "att"},
		Short:   "List what is attached to which pod",
		Long:    getHelp,
		Example: getExamples,
		RunE: func(command *cobra.Command, args []string) error {
			o.filter.Pods = args
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "after listing, print rows again as they change")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print no headers")
	flags.StringVarP(&o.selector, "selector", "l", "", "only of pods that have these labels")
	flags.StringVar(&o.filter.Node, "node", "", "only of pods on this node")
	flags.StringVar(&o.filter.Network, "nad", "", "only of this NetworkAttachmentDefinition, as [NAMESPACE/]NAME")
	flags.StringVarP(&o.format, "output", "o", "table", "table, wide, json or yaml")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(getFormats, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o *getOptions) run(ctx context.Context) error {
	if !slices.Contains(getFormats, o.format) {
		return fmt.Errorf("reading --output %q: use table, wide, json or yaml", o.format)
	}
	var err error
	if o.filter.Labels, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("reading --selector: %w", err)
	}
	if o.cluster, err = o.liveCluster(); err != nil {
		return err
	}
	if o.allNamespaces {
		o.cluster.Namespace = ""
	}
	o.table = inspect.Table{Namespaces: o.allNamespaces, Wide: o.format == "wide", NoHeaders: o.noHeaders}
	if o.watch {
		o.changes.Narrow = o.format == "table"
		return o.cluster.Watch(ctx, o.printChanges)
	}
	in, err := o.cluster.Read(ctx)
	if err != nil {
		return err
	}
	return o.print(in)
}

func (o *getOptions) rows(in inspect.Input) []inspect.Attachment {
	return o.filter.Apply(inspect.Attachments(in), in.Pods)
}

func (o *getOptions) isTable() bool { return o.format == "table" || o.format == "wide" }

func (o *getOptions) print(in inspect.Input) error {
	for _, name := range o.filter.Pods {
		if !slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			return fmt.Errorf("listing attachments: pod %q does not exist%s", name, o.where())
		}
	}
	rows := o.rows(in)
	switch {
	case !o.isTable():
		return inspect.Encode(o.Out, o.format, inspect.NewList(rows))
	case len(rows) == 0:
		_, err := fmt.Fprintf(o.ErrOut, "No attachments found%s.\n", o.where())
		return err
	}
	return o.table.Print(o.Out, rows)
}

func (o *getOptions) where() string {
	if o.cluster.Namespace == "" {
		return ""
	}
	return " in namespace " + o.cluster.Namespace
}

func (o *getOptions) printChanges(in inspect.Input) error {
	rows := o.changes.Next(o.rows(in))
	if len(rows) == 0 {
		return nil
	}
	if o.isTable() {
		return o.table.Print(o.Out, rows)
	}
	for _, a := range rows {
		if o.format == "yaml" {
			if _, err := fmt.Fprintln(o.Out, "---"); err != nil {
				return fmt.Errorf("writing attachments: %w", err)
			}
		}
		if err := inspect.Encode(o.Out, o.format, inspect.NewOne(a)); err != nil {
			return err
		}
	}
	return nil
}

// liveCluster is the one of the flags, in their namespace.
func (a *app) liveCluster() (inspectread.Cluster, error) {
	var c inspectread.Cluster
	config, err := a.cluster.ToRESTConfig()
	if err != nil {
		return c, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.Burst = 50, 100 // a few pages of lists; the default is for controllers
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return c, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if c.NADs, err = nadclient.NewForConfig(config); err != nil {
		return c, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if c.Namespace, _, err = a.cluster.ToRawKubeConfigLoader().Namespace(); err != nil {
		return c, fmt.Errorf("finding the namespace: %w", err)
	}
	return c, nil
}
