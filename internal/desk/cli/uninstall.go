package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const uninstallHelp = `Remove nadra: webhooks, controller, the objects that they have created, the driver,
and nadra's files on each node. It refuses and lists users while nadra is in use,
because without the driver no pod with networks of nadra could be deleted. A
short-lived pod on each node checks whether networks are still attached there, or
a DEL is still pending.

NetworkAttachmentDefinitions and their CRD stay, and so do Multus, manifests for
monitoring, and templates and classes that people have created. It refuses to
remove a Helm release: run helm uninstall instead. After an interruption, run the
command again.`

const uninstallExamples = `  kubectl nadra uninstall --dry-run=server
  kubectl nadra uninstall`

type uninstallOptions struct {
	runFlags
	exclude []string
}

func (a *app) uninstall() *cobra.Command {
	o := &uninstallOptions{runFlags: runFlags{app: a}}
	command := leaf("uninstall", "Remove nadra; refuses while it is in use", uninstallHelp, uninstallExamples, o.run)
	flags := command.Flags()
	o.nodes.addPods(flags)
	flags.StringVar(&o.stateNamespace, "controller-namespace", "nadra-system", "namespace of the controller")
	flags.StringSliceVar(&o.exclude, "exclude-node", nil, "do not clean up these nodes, for example because they cannot be reached")
	o.dryRun.addFlag(flags, "client prints what would be deleted, and server has the API server check it, too; nothing is deleted", dryClient, dryServer)
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.DurationVar(&o.gateTimeout, "gate-timeout", defaultGate, "time limit for each wait")
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
	o.printProblems(notes, false)
	if err := o.confirm("nadra is not in use. Remove it?"); err != nil {
		return err
	}
	if err := u.Run(ctx); err != nil {
		if ctx.Err() != nil {
			return o.exit(CodeInterrupted, "interrupted: kubectl nadra uninstall continues")
		}
		return o.refusal(err)
	}
	if !o.dryRun.on() {
		o.note("nadra is removed.")
	}
	return nil
}

// refusal prints why nadra is not removed, and returns the exit code.
func (o *uninstallOptions) refusal(err error) error {
	var inUse *cleanup.InUseError
	switch {
	case errors.As(err, &inUse):
		o.printProblems(inUse.Users, false)
		return o.exit(CodeRefused, "refused: nadra is in use")
	case reason.Of(err) == reason.InstalledByHelm:
		return o.exit(CodeRefused, "refused: %v", err)
	}
	return err
}

// uninstaller returns the uninstaller for the flags.
func (o *uninstallOptions) uninstaller(ctx context.Context) (*cleanup.Uninstaller, error) {
	cluster, err := o.connect()
	if err != nil {
		return nil, err
	}
	u := &cleanup.Uninstaller{
		Kube:    cluster.Kube,
		Where:   cleanup.Namespaces{Driver: o.nodes.namespace, Controller: o.stateNamespace},
		Exclude: o.exclude, Timeout: o.gateTimeout, Poll: podPoll, DryRun: o.dryRun.mode(), Say: o.say(""),
	}
	config, err := o.cluster.config(giveKubeconfig)
	if err != nil {
		return nil, err
	}
	if u.Client, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	driver, err := doctor.Driver(ctx, cluster.Kube, o.nodes.namespace)
	if err != nil {
		return nil, err
	}
	if driver != nil {
		u.NodeArgs = nodeArgs(driver, "state-dir", "cdi-dir", "kubelet-plugins-dir", "kubelet-registry-dir")
	} else {
		note, err := u.Noted(ctx)
		if err != nil {
			return nil, err
		}
		u.NodeArgs, o.nodes.image = note.Args, cmp.Or(o.nodes.image, note.Image)
	}
	u.Pods, _, err = o.nodes.pods(ctx, cluster.Kube)
	return u, err
}
