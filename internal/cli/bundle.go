package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/bundle"
	"github.com/nadra-dev/nadra/internal/bundleread"
	"github.com/nadra-dev/nadra/internal/doctorread"
)

const bundleHelp = `Write an archive for support: what doctor says, nadra's own objects, logs and
metrics, networks, claims, the pods that have networks with their events, what is
attached, and how far an upgrade is.

Secrets are never read. Of pods there is nothing that is not about networks: no
variables, no arguments, no other annotations. Values under names that look like
credentials, tokens, keys, certificates and the users of URLs are replaced by
` + bundle.Mark + `; --hide-addresses puts pseudonyms in place of IP and MAC addresses.
README.md in the archive says what is in it, what was taken out, and what could
not be read and why. Look through it before you send it.

It only reads, unless --probe has a short-lived pod look at each node.`

const bundleExamples = `  # of the current namespace, or of all
  kubectl nadra bundle -o bundle.tar.gz
  kubectl nadra bundle -A -o bundle.tar.gz --hide-addresses
  # of a large cluster, only some nodes, from inside of them, too
  kubectl nadra bundle -A --nodes worker-3,worker-4 --probe --since 15m
  # look at it at once
  kubectl nadra bundle -o - | tar -xzO nadra-bundle/README.md`

type bundleOptions struct {
	*app
	out, stateNamespace         string
	nodes                       []string
	since                       time.Duration
	allNamespaces, hide, probed bool
	quiet                       bool
	pods                        nodeFlags
}

func (a *app) bundle() *cobra.Command {
	o := &bundleOptions{app: a}
	command := &cobra.Command{
		Use:     "bundle",
		Short:   "Write an archive for support, without credentials",
		Long:    bundleHelp,
		Example: bundleExamples,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.out, "output", "o", "nadra-bundle.tar.gz", "file to write to; - is standard output")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "pods, claims and networks of all namespaces")
	flags.DurationVar(&o.since, "since", time.Hour, "how far back logs go")
	flags.StringSliceVar(&o.nodes, "nodes", nil, "look only at these nodes, and at the driver on them")
	flags.BoolVar(&o.hide, "hide-addresses", false, "put pseudonyms in place of IP and MAC addresses")
	flags.BoolVar(&o.probed, "probe", false, "look from inside of each node, too, by a short-lived pod")
	o.pods.addPods(flags)
	flags.StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace that keeps how far an upgrade is")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "tell no totals and no progress")
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
	if err := archive.AddValue("version.json", "of the client", clientVersions()); err != nil {
		return err
	}
	progress := newProgress(o.ErrOut, o.quiet)
	cluster.Progress = func(what string) { progress.say("Reading %s", what) }
	if cluster.Probe != nil {
		cluster.Probe.Cluster = cluster.Cluster
	}
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
	if err := o.write(content.Bytes()); err != nil {
		return err
	}
	if !o.quiet {
		o.tell(index, content.Len())
	}
	return nil
}

func (o *bundleOptions) reader() (bundleread.Cluster, error) {
	c := bundleread.Cluster{Since: o.since, StateNamespace: o.stateNamespace}
	var err error
	if c.Cluster, err = (&doctorOptions{app: o.app, nodes: o.nodes}).connect(); err != nil {
		return c, err
	}
	if !o.allNamespaces {
		if c.Namespace, _, err = o.cluster.ToRawKubeConfigLoader().Namespace(); err != nil {
			return c, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	if o.probed {
		c.Probe = &doctorread.Probe{Namespace: o.pods.namespace, Image: o.pods.image, Timeout: o.pods.timeout, Poll: podPoll}
	}
	return c, nil
}

// write keeps the archive from other users of the machine: it is about a cluster.
func (o *bundleOptions) write(content []byte) error {
	var err error
	if o.out == "-" {
		_, err = o.Out.Write(content)
	} else {
		err = os.WriteFile(o.out, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return nil
}

func (o *bundleOptions) tell(index *bundle.Index, size int) {
	taken := 0
	for _, n := range index.Redacted {
		taken += n
	}
	say := func(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	if o.out != "-" {
		say(o.ErrOut, "Wrote %s: %s, %d bytes.", o.out, plural(len(index.Files), "file"), size)
	}
	say(o.ErrOut, "Taken out: %s. Look through it before you send it.", plural(taken, "value"))
	for _, g := range index.Gaps {
		remedy := ""
		if g.Remedy != "" {
			remedy = ": " + g.Remedy
		}
		say(o.ErrOut, "Not read: %s: %s%s", g.What, g.Reason, remedy)
	}
}
