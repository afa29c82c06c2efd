package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const upgradeFinishHelp = `Check that nothing needs Multus any more: nadra owns all nodes, it has adopted what
Multus attached there, no node's runtime calls Multus, and no new pod would be served
by it. Pods on each node check the runtime's configuration and Multus' files. Pods that
nadra has adopted may go on running.

Beside Multus on one node, it refuses: Multus stays.

With --remove-multus, delete Multus' DaemonSets with their ConfigMaps and RBAC.
NetworkAttachmentDefinitions and their CRD stay.`

const upgradeFinishExamples = `  # check; then see what would be removed, and remove it
  kubectl nadra upgrade finish
  kubectl nadra upgrade finish --remove-multus --dry-run=server
  kubectl nadra upgrade finish --remove-multus`

func (a *app) upgradeFinish() *cobra.Command {
	o := &runFlags{app: a}
	var remove bool
	var multus []string
	command := leaf("finish", "Check that nothing needs Multus any more, and remove it with --remove-multus", upgradeFinishHelp, upgradeFinishExamples,
		func(ctx context.Context) error { return o.finish(ctx, multus, remove) },
	)
	o.add(command.Flags())
	command.Flags().BoolVar(&remove, "remove-multus", false, "remove Multus if nothing needs it")
	command.Flags().StringSliceVar(&multus, "multus", nil, "NAMESPACE/NAME of Multus' DaemonSets (default those that are recognized)")
	return command
}

// finish checks that nothing needs Multus, and removes it if remove is true.
func (o *runFlags) finish(ctx context.Context, multus []string, remove bool) error {
	if err := o.check(); err != nil {
		return err
	}
	readiness := doctorOptions{app: o.app, pods: o.nodes}
	readiness.pods.probe = true
	caps, err := readiness.capabilities(ctx)
	if err != nil {
		return err
	}
	if caps.Beside() {
		return o.exit(CodeRefused, "refused: nadra runs beside Multus on one node, where Multus attaches the default network of all pods: an upgrade of namespaces ends with its last wave. To remove Multus, install nadra without --beside-multus (manifests/drop-in), and move the nodes.")
	}
	configured, err := configuredBy(caps)
	if err != nil {
		return err
	}
	p := planOptions{app: o.app, quiet: true, multus: multus}
	facts, err := p.facts(ctx)
	if err != nil {
		return err
	}
	needs := upgrade.Needs(facts, configured)
	if len(needs) == 0 { // otherwise Multus may still be attaching
		if needs, err = o.notAdopted(ctx, slices.Sorted(maps.Keys(configured))); err != nil {
			return err
		}
	}
	if len(needs) > 0 {
		o.printProblems(needs, true)
		return o.exit(CodeRefused, "refused: Multus is needed")
	}
	_, _ = fmt.Fprintf(o.Out, "Nothing needs Multus: nadra serves %d nodes and %d pods with networks.\n", len(configured), len(facts.Pods))
	if adopted := facts.Adopted(); adopted.Pods > 0 {
		_, _ = fmt.Fprintln(o.Out, adopted.Text(time.Now()))
	}
	if !remove {
		o.note("Next, remove Multus, after which there is no rollback: kubectl nadra upgrade finish --remove-multus")
		return nil
	}
	if err := o.confirm("Remove Multus?"); err != nil {
		return err
	}
	return o.remove(ctx, p, caps)
}

// notAdopted returns a problem for each node on which nadra has not adopted all that Multus has
// attached.
func (o *runFlags) notAdopted(ctx context.Context, nodes []string) ([]translate.Finding, error) {
	store, err := o.store()
	if err != nil {
		return nil, err
	}
	runner, err := o.runner(ctx, store)
	if err != nil {
		return nil, err
	}
	return runner.NotAdopted(ctx, nodes), nil
}

// remove removes Multus and the upgrade's state.
func (o *runFlags) remove(ctx context.Context, p planOptions, caps doctor.Capabilities) error {
	refs, err := p.multusOf(caps)
	if err != nil {
		return err
	}
	store, err := o.store()
	if err != nil {
		return err
	}
	removal := upgrade.Removal{
		Cluster: upgrade.Cluster{Kube: store.Kube}, Say: o.say(""), DryRun: o.dryRun.mode(),
	}
	if err := removal.Remove(ctx, refs); err != nil || o.dryRun.on() {
		return err
	}
	return store.Forget(ctx)
}

// configuredBy returns Multus' configurations in the runtimes' directories, by node. It fails
// if a node was not probed.
func configuredBy(caps doctor.Capabilities) (map[string][]string, error) {
	out := map[string][]string{}
	for _, n := range caps.Nodes {
		switch {
		case n.OS != "" && n.OS != "linux":
			continue
		case n.Probe == nil || len(n.Probe.ConfDirs) == 0:
			for _, g := range caps.Gaps {
				if g.Part == doctor.PartProbe && (g.Node == n.Name || g.Node == "") {
					return nil, fmt.Errorf("probing node %s: %s: %s", n.Name, g.Reason, g.Remedy)
				}
			}
			return nil, errors.New("probing node " + n.Name + ": the pod has reported nothing")
		}
		out[n.Name] = []string{}
		for _, file := range n.Probe.ConfDirs[0].Files {
			if file.Multus != nil {
				out[n.Name] = append(out[n.Name], file.File)
			}
		}
	}
	return out, nil
}
