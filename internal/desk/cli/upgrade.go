package cli

import (
	"github.com/spf13/cobra"
)

const upgradeHelp = `Move the cluster's nodes and namespaces from Multus to nadra, in waves.

A plan lists which nodes and namespaces move together, what happens to their pods,
and the obstacles. It is a file for people to review.`

func (a *app) upgrade() *cobra.Command {
	return group(&cobra.Command{Use: "upgrade", Short: "Move the cluster to nadra, node by node", Long: upgradeHelp},
		a.upgradePlan(), a.upgradeRun(), a.upgradeStatus(), a.upgradePause(), a.upgradeResume(), a.upgradeRollback(), a.upgradeFinish())
}
