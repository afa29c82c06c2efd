package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const cleanupHelp = `Find orphans, which deleted pods have left behind, and free them with --apply:
claims, templates of the webhook, addresses of whereabouts and host-local,
attachments in the caches of libcni, files of Multus. Settings that virtual
functions still have are only reported.

Without --apply nothing is changed. A short-lived pod on each node asks the
container runtime by NRI for its sandboxes, and the kernel for its addresses; a
node whose runtime does not answer is refused. Resources that a running sandbox
may use are never touched, and those of the cluster's default network only with
--all-cni.

With -n only orphans of one namespace are listed, and none on nodes are freed.`

const cleanupExamples = `  # list all orphans
  kubectl nadra cleanup
  # free them
  kubectl nadra cleanup --apply
  # without pods on nodes; addresses of whereabouts are then only reported
  kubectl nadra cleanup --probe=false -o json`

type cleanupOptions struct {
	*app
	nodes         nodeFlags
	only          []string
	allNamespaces bool
	allCNI        bool
	apply, yes    bool
	olderThan     time.Duration
	format        formatFlag
	failOn        failOn
}

func (a *app) cleanup() *cobra.Command {
	o := &cleanupOptions{app: a}
	command := leaf("cleanup", "Find and free what deleted pods have left behind", cleanupHelp, cleanupExamples, o.run)
	flags := command.Flags()
	o.nodes.add(flags, true)
	flags.StringSliceVar(&o.only, "node", nil, "search only these nodes")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "search all namespaces, which is the default without -n")
	flags.BoolVar(&o.allCNI, "all-cni", false, "also free orphans of the cluster's default network")
	flags.BoolVar(&o.apply, "apply", false, "free the orphans, which are only reported otherwise")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.DurationVar(&o.olderThan, "older-than", 10*time.Minute, "ignore orphans that are younger")
	o.format.addFlag(command, report.Cleanup.Names())
	o.failOn.addFlag(flags)
	return command
}

func (o *cleanupOptions) check() error {
	switch {
	case !o.nodes.probe && len(o.only) > 0:
		return errors.New("--node names nodes: leave out --probe=false")
	case o.allNamespaces && o.namespace() != "":
		return errors.New("-n names a namespace: leave out -A")
	case o.olderThan < 0:
		return fmt.Errorf("--older-than is %s: it must not be negative", o.olderThan)
	}
	return o.nodes.check()
}

// namespace returns the namespace of -n, or "" for all.
func (o *cleanupOptions) namespace() string {
	if n := o.cluster.Namespace; n != nil {
		return *n
	}
	return ""
}

func (o *cleanupOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	cleaner, err := o.cleaner(ctx)
	if err != nil {
		return err
	}
	if !o.apply {
		found, err := cleaner.Find(ctx)
		if err != nil {
			return err
		}
		return o.report(found)
	}
	if !o.yes {
		if err := o.confirm(ctx, cleaner); err != nil {
			return err
		}
	}
	freed, err := cleaner.Free(ctx)
	if err != nil {
		return err
	}
	return o.report(freed)
}

// confirm shows the orphans and asks for confirmation.
func (o *cleanupOptions) confirm(ctx context.Context, cleaner *cleanup.Cleaner) error {
	ask := &runFlags{app: o.app}
	if err := ask.askable(); err != nil {
		return err
	}
	found, err := cleaner.Find(ctx)
	if err != nil {
		return err
	}
	if err := report.Cleanup.Write(o.ErrOut, "table", found); err != nil {
		return err
	}
	return ask.confirm("Free these orphans?")
}

// report writes the report and returns an error with the exit code.
func (o *cleanupOptions) report(r cleanup.Report) error {
	if err := report.Cleanup.Write(o.Out, o.format.value, r); err != nil {
		return err
	}
	switch n := r.Failed(); {
	case n > 0:
		return fmt.Errorf("%d of %d orphans could not be freed: the report says why", n, len(r.Orphans))
	case len(r.Refused) > 0:
		return o.exit(CodeRefused, "refused: nodes that could not be checked: %d", len(r.Refused))
	}
	n := translate.Count(r.Findings)
	for _, orphan := range r.Orphans {
		if !orphan.Done {
			n.Warning++
		}
	}
	return o.failOn.verdict(n)
}

// cleaner returns the cleaner for the flags.
func (o *cleanupOptions) cleaner(ctx context.Context) (*cleanup.Cleaner, error) {
	cluster, err := o.connect()
	if err != nil {
		return nil, err
	}
	out := &cleanup.Cleaner{
		Kube: cluster.Kube, NADs: cluster.NADs, Dynamic: cluster.Dynamic,
		Only: o.only, Namespace: o.namespace(), OlderThan: o.olderThan, AllCNI: o.allCNI,
	}
	if !o.nodes.probe {
		return out, nil
	}
	pods, driver, err := o.nodes.pods(ctx, cluster.Kube)
	if err != nil {
		return nil, err
	}
	out.Pods, out.NodeArgs = pods, nodeArgs(driver, "nri-socket", "cni-bin-dirs", "state-dir")
	return out, nil
}

// nodeArgs returns those of the driver's flags that are set, for pods on nodes.
func nodeArgs(driver *doctor.Nadra, names ...string) []string {
	var out []string
	for _, name := range names {
		if value := driver.Flag(name, ""); value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	return out
}
