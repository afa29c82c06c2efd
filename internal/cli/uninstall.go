package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/doctorread"
	"github.com/nadra-dev/nadra/internal/uninstall"
	"github.com/nadra-dev/nadra/internal/uninstallrun"
)

const uninstallHelp = `Take nadra away: webhooks, controller, what they have made, the driver, and what
is nadra's on each node. It refuses while nadra is in use and says by whom, since
without the driver no pod with networks of nadra could be deleted. A short-lived
pod on each node looks whether anything is still to be given back.

NetworkAttachmentDefinitions and their CRD stay, as do Multus, manifests for
monitoring, and templates and classes that people have made. What Helm has
installed is left to helm uninstall. After an interruption the same command goes
on.`

const uninstallExamples = `  kubectl nadra uninstall --dry-run=server
  kubectl nadra uninstall`

type uninstallOptions struct {
	runFlags
	exclude []string
}

func (a *app) uninstall() *cobra.Command {
	o := &uninstallOptions{runFlags: runFlags{app: a}}
	command := &cobra.Command{
		Use:     "uninstall",
		Short:   "Take nadra away, if nobody uses it",
		Long:    uninstallHelp,
		Example: uninstallExamples,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	o.nodes.addPods(flags)
	flags.Lookup("probe-namespace").Usage = "namespace of the driver, and of pods that are made"
	flags.StringVar(&o.stateNamespace, "controller-namespace", "nadra-system", "namespace of the controller")
	flags.StringSliceVar(&o.exclude, "exclude-node", nil, "leave these nodes as they are, as they cannot be reached")
	flags.StringVar(&o.dryRun, "dry-run", "none", "none, server to have the API server check all that would be deleted, or client to only say it")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&o.gateTimeout, "gate-timeout", defaultGate, "how long anything may take that is waited for")
	o.drainTimeout = defaultGate // not a flag: nothing is drained
	return command
}

func (o *uninstallOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	u, err := o.uninstaller(ctx)
	if err != nil {
		return err
	}
	notes, err := u.Check(ctx)
	if err != nil {
		return o.refusal(err)
	}
	for _, note := range notes {
		_, _ = fmt.Fprintln(o.ErrOut, "note:", note)
	}
	if err := o.confirm("Nobody uses nadra. Take it away?"); err != nil {
		return err
	}
	if err := u.Run(ctx); err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintln(o.ErrOut, "interrupted: kubectl nadra uninstall goes on")
			return exitError(CodeInterrupted)
		}
		return o.refusal(err)
	}
	if o.dryRun == "none" {
		_, _ = fmt.Fprintln(o.Out, "nadra is gone.")
	}
	return nil
}

// refusal tells who is in the way.
func (o *uninstallOptions) refusal(err error) error {
	var inUse *uninstallrun.InUseError
	var helm *uninstallrun.HelmError
	switch {
	case errors.As(err, &inUse):
		for _, user := range inUse.Users {
			_, _ = fmt.Fprintf(o.ErrOut, "%s: %s\n  What to do: %s.\n", user.Who, user.How, user.Remedy)
		}
		_, _ = fmt.Fprintln(o.ErrOut, "refused: nadra is in use")
		return exitError(CodeRefused)
	case errors.As(err, &helm):
		_, _ = fmt.Fprintln(o.ErrOut, "refused:", err)
		return exitError(CodeRefused)
	}
	return err
}

func (o *uninstallOptions) uninstaller(ctx context.Context) (*uninstallrun.Uninstaller, error) {
	readiness := doctorOptions{app: o.app}
	cluster, err := readiness.connect()
	if err != nil {
		return nil, err
	}
	u := &uninstallrun.Uninstaller{
		Kube: cluster.Kube, Dynamic: cluster.Dynamic,
		Where:   uninstall.Namespaces{Driver: o.nodes.namespace, Controller: o.stateNamespace},
		Exclude: o.exclude, Timeout: o.gateTimeout, Poll: podPoll,
		Say: func(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format+"\n", args...) },
	}
	if o.dryRun != "none" {
		u.DryRun = o.dryRun
	}
	config, err := o.cluster.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	if u.Client, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	driver, err := doctorread.Driver(ctx, cluster.Kube)
	if err != nil {
		return nil, err
	}
	if driver != nil {
		u.NodeArgs = hostArgs(driver)
	} else {
		note, err := u.Noted(ctx)
		if err != nil {
			return nil, err
		}
		u.NodeArgs, o.nodes.image = note.Args, cmp.Or(o.nodes.image, note.Image)
	}
	u.Pods, err = o.nodes.pods(ctx, cluster.Kube)
	return u, err
}

// hostArgs are the driver's own flags about where things are that it leaves.
func hostArgs(driver *doctor.Nadra) []string {
	var out []string
	for _, name := range []string{"state-dir", "cdi-dir", "kubelet-plugins-dir", "kubelet-registry-dir"} {
		if value := driver.Flag(name, ""); value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	return out
}
