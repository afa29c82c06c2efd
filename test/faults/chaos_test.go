//go:build e2e

package faults

import (
	"fmt"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// chaos is a CNI plugin for the end of a chain. It changes nothing and passes on the result
// of the previous plugin, unless a file on the node, named after the command, makes it
// misbehave.
const chaos = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
input=$(cat)
misbehave() {
	case $1 in
	again) echo '{"cniVersion":"1.1.0","code":11,"msg":"chaos: try again"}'; exit 1 ;;
	refuse) echo '{"cniVersion":"1.1.0","code":999,"msg":"chaos: refused"}'; exit 1 ;;
	hang) sleep 120 ;;
	garbage) echo 'this is { no JSON'; exit 0 ;;
	die) kill -9 $$ ;;
	slow*) sleep ${1#slow} ;;
	esac
}
misbehave "$(cat ` + suiteDir + `/chaos/$CNI_COMMAND 2>/dev/null)"
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
# libcni writes the configuration with its keys in order; type follows prevResult.
ADD) echo "$input" | sed 's/.*"prevResult"://; s/,"type":"chaos"}$//' ;;
esac
`

// installChaos puts the plugin on the node.
func installChaos(n *cluster.Node) error {
	if err := lab.WriteHostFile(n, pluginDir+"/chaos", []byte(chaos), 0o755); err != nil {
		return fmt.Errorf("installing the chaos plugin: %w", err)
	}
	return nil
}

// orderChaos makes every later run of the chaos plugin with this CNI command misbehave. The
// empty behaviour ends that.
func orderChaos(n *cluster.Node, command, behaviour string) error {
	return order(suiteFile(n, "chaos", command), behaviour)
}
