package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/internal/words"
)

const snapshotHelp = `Record the networks of running pods: interfaces in their order, addresses, MACs,
MTUs, gateways, devices, who attached them, the devices of claims and the variables
of device plugins. kubectl nadra verify --against compares them later.

It only reads statuses. With --probe a short-lived pod on each node also reads
the pods' network namespaces: links, addresses, routes of all tables, rules, virtual
functions, sysctls, and environment variables about networks. It works on nodes of
Multus and of nadra, changes nothing, and is always deleted again.

Two snapshots of the same state differ only in their time.`

const snapshotExamples = `  # before and after the migration
  kubectl nadra snapshot -A --probe --output-file before.json
  kubectl nadra verify --against before.json --probe
  # before nadra is installed, name the namespace and image of the pods
  kubectl nadra snapshot -A --probe --probe-namespace kube-system --image registry.example.com/nadra-node:v1
  # from objects that kubectl printed
  kubectl get pods,replicasets,resourceclaims,net-attach-def -A -o json > objects.json
  kubectl nadra snapshot -f objects.json`

type snapshotOptions struct {
	*app
	files         manifestFiles
	allNamespaces bool
	selector      string
	nodes         nodeFlags
	out           string
	quiet         bool
}

func (a *app) snapshot() *cobra.Command {
	o := &snapshotOptions{app: a}
	command := leaf("snapshot", "Record the networks of running pods", snapshotHelp, snapshotExamples, o.run)
	flags := command.Flags()
	flags.StringSliceVarP(&o.files.Names, "filename", "f", nil, "file or directory with objects in the form of kubectl get, to read instead of the cluster; - is standard input")
	flags.BoolVarP(&o.files.Recursive, "recursive", "R", false, "also read the subdirectories of -f")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "record pods of all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "record only pods with these labels")
	addOutputFile(flags, &o.out, "", "the snapshot (default standard output)")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print no totals and no progress")
	o.nodes.add(flags, false)
	return command
}

func (o *snapshotOptions) run(ctx context.Context) error {
	if err := o.nodes.check(); err != nil {
		return err
	}
	s, err := o.take(ctx)
	if err != nil {
		return err
	}
	text, err := document.JSON(s, "  ")
	if err != nil {
		return err
	}
	if err := o.write("the snapshot", cmp.Or(o.out, "-"), text, 0o644); err != nil {
		return err
	}
	if !o.quiet {
		o.printTotals(s)
	}
	return nil
}

// take takes a snapshot of the cluster or of objects in files.
func (o *snapshotOptions) take(ctx context.Context) (*snapshot.Snapshot, error) {
	if len(o.files.Names) == 0 {
		namespace, err := o.cluster.namespace(o.allNamespaces)
		if err != nil {
			return nil, err
		}
		return o.takeLive(ctx, scope{namespace: namespace, selector: o.selector}, &o.nodes, o.quiet)
	}
	if o.allNamespaces || o.selector != "" || o.nodes.probe {
		return nil, errors.New("-A, -l and --probe read the live cluster: leave them out with -f")
	}
	o.files.Stdin = o.In
	set, err := o.files.read(ctx)
	if err != nil {
		return nil, err
	}
	in := snapshot.Input{Source: set.Description}
	for _, file := range set.Files {
		if err := in.ReadObjects(file.Data); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name, err)
		}
	}
	if len(in.Networks) == 0 { // the files have none
		in.Unread = map[inspect.Kind]bool{inspect.Networks: true}
	}
	return snapshot.Build(in), nil
}

// scope selects the pods of a snapshot of the live cluster.
type scope struct {
	// namespace is empty for all.
	namespace, selector string
	// known lists networks to record even if no pod uses them.
	known []string
}

// takeLive takes a snapshot of the live cluster.
func (a *app) takeLive(ctx context.Context, of scope, nodes *nodeFlags, quiet bool) (*snapshot.Snapshot, error) {
	cluster, err := a.cluster.live()
	if err != nil {
		return nil, err
	}
	cluster.Namespace = of.namespace
	c := snapshot.Cluster{Cluster: cluster, Name: a.cluster.contextName(), Selector: of.selector, Known: of.known}
	if c.Nodes, err = nodes.runner(ctx, cluster.Kube); err != nil {
		return nil, err
	}
	progress := newProgress(a.ErrOut, quiet)
	defer progress.stop()
	c.Progress = func(what string) { progress.say("%s", what) }
	return c.Take(ctx, time.Now())
}

// printTotals prints the counts of a snapshot.
func (a *app) printTotals(s *snapshot.Snapshot) {
	t := s.Totals()
	line := fmt.Sprintf("Recorded %s with %s of %s", words.Count(t.Pods, "pod"), words.Count(t.Interfaces, "interface"), words.Count(t.Networks, "network"))
	var by []string
	if t.Multus > 0 {
		by = append(by, fmt.Sprintf("%d attached by Multus", t.Multus))
	}
	if t.Nadra > 0 {
		by = append(by, fmt.Sprintf("%d attached by nadra", t.Nadra))
	}
	if len(by) > 0 {
		line += ": " + strings.Join(by, ", ")
	}
	a.note("%s.", line)
	if t.Lacking > 0 {
		a.note("Requested but missing: %s; kubectl nadra get attachments shows why.", words.Count(t.Lacking, "network"))
	}
	if t.NotRunning > 0 {
		a.note("Left out because they do not run: %s.", words.Count(t.NotRunning, "pod"))
	}
	if len(s.Nodes) > 0 {
		a.note("Read the network namespaces of %s on %s.", words.Count(t.Observed, "pod"), words.Count(len(s.Nodes), "node"))
	}
	for _, n := range s.Nodes {
		for _, e := range n.Errors {
			a.note("Node %s: %s", n.Name, e)
		}
	}
}
