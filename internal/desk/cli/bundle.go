package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/bundle"
	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/words"
)

const bundleHelp = `Write a redacted support archive: the facts of doctor, nadra's own objects, logs
and metrics, networks, claims, pods with networks and their events, attachments,
and the progress of an upgrade.

It never reads Secrets, and has only listed fields: names, types, versions, states and
the usual keys of CNI configurations. Of other fields it has the type and the length, of
messages only reason codes and well-known phrases. --hide-addresses replaces IP and MAC
addresses by pseudonyms. README.md in the archive lists its contents, how much was left
out, and what could not be read and why.

It only reads, unless --probe runs a short-lived pod on each node.`

const bundleExamples = `  # the current namespace, or all namespaces
  kubectl nadra bundle --output-file bundle.tar.gz
  kubectl nadra bundle -A --output-file bundle.tar.gz --hide-addresses
  # only some nodes of a large cluster, with probe pods on them
  kubectl nadra bundle -A --node worker-3,worker-4 --probe --since 15m
  # read the summary at once
  kubectl nadra bundle --output-file - | tar -xzO nadra-bundle/README.md`

type bundleOptions struct {
	*app
	out, stateNamespace string
	nodes               []string
	since               time.Duration
	allNamespaces, hide bool
	quiet               bool
	pods                nodeFlags
}

func (a *app) bundle() *cobra.Command {
	o := &bundleOptions{app: a}
	command := leaf("bundle", "Write a redacted support archive", bundleHelp, bundleExamples, o.run)
	flags := command.Flags()
	addOutputFile(flags, &o.out, "nadra-bundle.tar.gz", "the archive; - is standard output")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "include pods, claims and networks of all namespaces")
	flags.DurationVar(&o.since, "since", time.Hour, "age of the oldest logs")
	flags.StringSliceVar(&o.nodes, "node", nil, "include only these nodes and the driver on them")
	flags.BoolVar(&o.hide, "hide-addresses", false, "replace IP and MAC addresses by pseudonyms")
	o.pods.add(flags, false)
	flags.StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace of the upgrade's state")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print no totals and no progress")
	return command
}

func (o *bundleOptions) run(ctx context.Context) error {
	if o.since <= 0 {
		return fmt.Errorf("--since is %s: it must be more than zero", o.since)
	}
	if err := o.pods.check(); err != nil {
		return err
	}
	cluster, err := o.reader()
	if err != nil {
		return err
	}
	archive := &bundle.Bundle{Head: bundle.Head{
		Client: clientVersions().Client, Namespace: cluster.Namespace, Since: o.since.String(), Nodes: o.nodes, HiddenAddresses: o.hide,
	}}
	if err := archive.AddValue("version.json", "the client's version", "Version", clientVersions()); err != nil {
		return err
	}
	progress := newProgress(o.ErrOut, o.quiet)
	cluster.Progress = func(what string) { progress.say("Reading %s", what) }
	err = cluster.Collect(ctx, archive)
	progress.stop()
	if err != nil {
		return err
	}
	var content bytes.Buffer
	index, err := archive.Write(&content)
	if err != nil {
		return err
	}
	if err := o.write("the bundle", o.out, content.Bytes(), 0o600); err != nil {
		return err
	}
	if !o.quiet {
		o.summarize(index, content.Len())
	}
	return nil
}

// reader returns the reader of the cluster for the flags.
func (o *bundleOptions) reader() (bundle.Cluster, error) {
	c := bundle.Cluster{Since: o.since, StateNamespace: o.stateNamespace}
	var err error
	if c.Cluster, err = o.connect(); err != nil {
		return c, err
	}
	c.Nodes = o.nodes
	if o.pods.probe {
		c.Probe = &doctor.Probe{Pods: o.pods.podsOf(c.Kube)}
	}
	c.Namespace, err = o.cluster.namespace(o.allNamespaces)
	return c, err
}

// summarize prints the archive's size and gaps.
func (o *bundleOptions) summarize(index *bundle.Index, size int) {
	removed := 0
	for _, n := range index.Redacted {
		removed += n
	}
	if o.out != "-" {
		o.note("Wrote %s: %s, %d bytes.", o.out, words.Count(len(index.Files), "file"), size)
	}
	o.note("Left out %s.", words.Count(removed, "value"))
	for _, g := range index.Gaps {
		remedy := ""
		if g.Remedy != "" {
			remedy = ": " + g.Remedy
		}
		o.note("Not read: %s: %s%s", g.What, g.Reason, remedy)
	}
}
