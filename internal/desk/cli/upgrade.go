package cli

import (
	"github.com/spf13/cobra"
)

const upgradeHelp = `Move the cluster's nodes and namespaces from Multus to nadra, in waves.

A plan lists which nodes and namespaces move together, which pods are evicted, and
the obstacles. It is a file for people to review.`

func (a *app) upgrade() *cobra.Command {
	command := &cobra.Command{
		Use:   "upgrade",
		Short: "Move the cluster to nadra, node by node",
		Long:  upgradeHelp,
		Args:  cobra.NoArgs,
	}
	command.AddCommand(a.upgradePlan(), a.upgradeRun(), a.upgradeStatus(), a.upgradePause(), a.upgradeResume(), a.upgradeRollback(), a.upgradeFinish())
	return command
}
