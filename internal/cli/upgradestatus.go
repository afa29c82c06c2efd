package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/report"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/internal/upgraderun"
)

func (a *app) upgradeStatus() *cobra.Command {
	o := &runFlags{app: a}
	var format string
	command := &cobra.Command{
		Use:   "status",
		Short: "Say how far the upgrade is",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			store, err := o.store()
			if err != nil {
				return err
			}
			plan, state, paused, err := store.Load(command.Context())
			if err != nil {
				return err
			}
			if paused && state.Phase == upgrade.Running {
				state.Reason = "a pause was asked for; it comes before the next step"
			}
			return report.WriteUpgradeStatus(o.Out, format, report.UpgradeStatus{State: state, Lines: state.Lines(plan)})
		},
	}
	command.Flags().StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace that keeps how far the upgrade is")
	command.Flags().StringVarP(&format, "output", "o", "table", "form of the report: "+strings.Join(report.UpgradeStatusFormats(), ", "))
	return command
}

func (a *app) upgradePause() *cobra.Command {
	o := &runFlags{app: a}
	command := &cobra.Command{
		Use:   "pause",
		Short: "Have the upgrade stop before its next step, whoever carries it out",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			store, err := o.store()
			if err != nil {
				return err
			}
			return store.Pause(command.Context(), true)
		},
	}
	command.Flags().StringVar(&o.stateNamespace, "state-namespace", "nadra-system", "namespace that keeps how far the upgrade is")
	return command
}

func (a *app) upgradeResume() *cobra.Command {
	o := &runFlags{app: a}
	command := &cobra.Command{
		Use:   "resume",
		Short: "Go on with an upgrade, or a rollback, that was paused, stopped or interrupted",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.resume(command.Context()) },
	}
	o.add(command.Flags())
	return command
}

func (o *runFlags) resume(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	store, err := o.store()
	if err != nil {
		return err
	}
	if err := store.Pause(ctx, false); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgraderun.Runner) error {
		plan, state, _, err := r.Store.Load(ctx)
		switch {
		case err != nil:
			return err
		case state.Target != "":
			return r.RollBack(ctx, plan, state, state.Target)
		case state.Phase == upgrade.Done || state.Phase == upgrade.RolledBack:
			return fmt.Errorf("there is nothing to go on with: the upgrade is %s", state.Phase)
		}
		return r.Run(ctx, plan, state, "")
	})
}

const upgradeRollbackHelp = `Give a node, a namespace, a workload or everything back to Multus.

A node is cordoned and drained of the pods whose networks nadra has attached; then
its runtime has Multus' configuration again, the label is taken off, Multus' pod
comes back, and it is uncordoned. Of a namespace, the label is what it was, and
its pods are evicted, to come back on nodes of Multus. With --pod, the pod template
of the Deployment or StatefulSet that has made the pod is labelled for Multus,
which makes all of its pods anew; take the label off to have it move again.`

func (a *app) upgradeRollback() *cobra.Command {
	o := &runFlags{app: a}
	var node, pod string
	var all bool
	command := &cobra.Command{
		Use:   "rollback (--node NODE | -n NAMESPACE | --pod NAMESPACE/NAME | --all)",
		Short: "Give a node, a namespace, a workload or everything back to Multus",
		Long:  upgradeRollbackHelp,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := o.target(node, pod, all)
			if err != nil {
				return err
			}
			return o.rollBack(command.Context(), target)
		},
	}
	o.add(command.Flags())
	command.Flags().StringVar(&node, "node", "", "node to give back")
	command.Flags().StringVar(&pod, "pod", "", "NAMESPACE/NAME of a pod whose workload to give back")
	command.Flags().BoolVar(&all, "all", false, "give everything back")
	return command
}

// target is what to roll back; one of four.
func (o *runFlags) target(node, pod string, all bool) (string, error) {
	var targets []string
	if node != "" {
		targets = append(targets, "node/"+node)
	}
	if ns := *o.cluster.Namespace; ns != "" {
		targets = append(targets, "namespace/"+ns)
	}
	if pod != "" {
		targets = append(targets, "pod/"+pod)
	}
	if all {
		targets = append(targets, "all")
	}
	if len(targets) != 1 {
		return "", errors.New("say what to give back, by one of --node, -n, --pod and --all")
	}
	return targets[0], nil
}

func (o *runFlags) rollBack(ctx context.Context, target string) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := o.confirm("Roll back " + target + "?"); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgraderun.Runner) error {
		plan, state, _, err := r.Store.Load(ctx)
		if err != nil {
			return err
		}
		if o.dryRun == "none" {
			if err := r.Store.Pause(ctx, false); err != nil {
				return err
			}
		}
		return r.RollBack(ctx, plan, state, target)
	})
}
