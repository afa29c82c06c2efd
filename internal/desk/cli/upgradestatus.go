package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
)

func (a *app) upgradeStatus() *cobra.Command {
	o := &runFlags{app: a}
	var format formatFlag
	command := leaf("status", "Show the progress of the upgrade", "", "  kubectl nadra upgrade status\n  kubectl nadra upgrade status -o json", func(ctx context.Context) error {
		store, err := o.store()
		if err != nil {
			return err
		}
		plan, state, paused, err := store.Load(ctx)
		if err != nil {
			return err
		}
		if paused && state.Phase == upgrade.Running {
			state.Reason = "a pause was requested; the upgrade pauses before its next step"
		}
		var adopted *upgrade.Adopted
		if !plan.BesideMultus { // where Multus stays, nadra adopts nothing
			adopted = o.adopted(ctx, store, plan)
		}
		return report.Upgrade.Write(o.Out, format.value, report.NewUpgradeStatus(plan, state, adopted, time.Now()))
	})
	o.addStateNamespace(command.Flags())
	format.addFlag(command, report.Upgrade.Names())
	return command
}

// adopted counts the pods with networks that Multus attached. It returns nil, and says why, if the
// cluster cannot be read.
func (o *runFlags) adopted(ctx context.Context, store upgrade.Store, plan *upgrade.Plan) *upgrade.Adopted {
	objects, err := upgrade.Cluster{Kube: store.Kube}.Objects(ctx)
	if err != nil {
		o.note("The pods that nadra has adopted are unknown: %v", err)
		return nil
	}
	facts := objects.Facts(plan.DomainLabel, plan.Multus)
	out := facts.Adopted()
	return &out
}

func (a *app) upgradePause() *cobra.Command {
	o := &runFlags{app: a}
	command := leaf("pause", "Pause a running upgrade before its next step", "", "  kubectl nadra upgrade pause\n  kubectl nadra upgrade resume", func(ctx context.Context) error {
		store, err := o.store()
		if err != nil {
			return err
		}
		return store.Pause(ctx, true)
	})
	o.addStateNamespace(command.Flags())
	return command
}

const upgradeResumeHelp = `Continue an upgrade, or a rollback, that was paused, stopped or interrupted, on any
machine. The plan is the one that the cluster keeps. It goes on to the last wave; to
end after one, use upgrade run --wave.`

const upgradeResumeExamples = `  # after --wave, a pause, or a repaired cause of a stop
  kubectl nadra upgrade status
  kubectl nadra upgrade resume
  # without a question, in a pipeline
  kubectl nadra upgrade resume --yes --gate-timeout 15m`

func (a *app) upgradeResume() *cobra.Command {
	o := &runFlags{app: a}
	command := leaf("resume", "Continue an upgrade, or a rollback, that was paused, stopped or interrupted", upgradeResumeHelp, upgradeResumeExamples, o.resume)
	o.add(command.Flags())
	o.addDrain(command.Flags())
	return command
}

// resume continues an upgrade or a rollback.
func (o *runFlags) resume(ctx context.Context) error {
	if err := o.checkDrain(); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgrade.Runner) error {
		plan, state, _, err := r.Store.Load(ctx)
		switch {
		case err != nil:
			return err
		case state.Target != "":
			return r.RollBack(ctx, plan, state, state.Target)
		case state.Phase == upgrade.Done || state.Phase == upgrade.RolledBack:
			return fmt.Errorf("there is nothing to continue: the upgrade is %s", state.Phase)
		}
		return r.Run(ctx, plan, state, "")
	})
}

const upgradeRollbackHelp = `Move a node, a namespace, a workload or everything back to Multus.

A node is cordoned and drained of pods with networks of nadra; then the runtime gets
Multus' configuration again, the label is removed, Multus' pod is recreated, and the
node is uncordoned. A namespace gets its former label, and its pods are evicted and
recreated on nodes of Multus. With --pod, the pod template of the pod's Deployment or
StatefulSet is labelled for Multus, which recreates all of its pods; remove the label
to let the workload move again.

Beside Multus on one node, a namespace gets its former label, and its workloads are
restarted by a rollout; no node changes.`

const upgradeRollbackExamples = `  # one node; see first what would be done
  kubectl nadra upgrade rollback --node node-a --dry-run=server
  kubectl nadra upgrade rollback --node node-a
  # the pods of a namespace, or of one workload
  kubectl nadra upgrade rollback -n core5g
  kubectl nadra upgrade rollback --pod core5g/smf-7d9c5b8f4-x2x7p
  # everything
  kubectl nadra upgrade rollback --all`

func (a *app) upgradeRollback() *cobra.Command {
	o := &runFlags{app: a}
	var node, pod string
	var all bool
	command := leaf("rollback (--node NODE | -n NAMESPACE | --pod NAMESPACE/NAME | --all)", "Move a node, a namespace, a workload or everything back to Multus", upgradeRollbackHelp, upgradeRollbackExamples, func(ctx context.Context) error {
		target, err := o.target(node, pod, all)
		if err != nil {
			return err
		}
		return o.rollBack(ctx, target)
	})
	o.add(command.Flags())
	o.addDrain(command.Flags())
	command.Flags().StringVar(&node, "node", "", "node to roll back")
	command.Flags().StringVar(&pod, "pod", "", "NAMESPACE/NAME of a pod whose workload to roll back")
	command.Flags().BoolVar(&all, "all", false, "roll everything back")
	return command
}

// target returns the target of a rollback. Exactly one must be set.
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
		return "", errors.New("choosing the target: use one of --node, -n, --pod and --all")
	}
	return targets[0], nil
}

// rollBack rolls a target back.
func (o *runFlags) rollBack(ctx context.Context, target string) error {
	if err := o.checkDrain(); err != nil {
		return err
	}
	if err := o.confirm("Roll back " + target + "?"); err != nil {
		return err
	}
	return o.carryOut(ctx, func(ctx context.Context, r *upgrade.Runner) error {
		plan, state, _, err := r.Store.Load(ctx)
		if err != nil {
			return err
		}
		return r.RollBack(ctx, plan, state, target)
	})
}
