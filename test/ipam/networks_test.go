//go:build e2e

package ipam

import (
	"fmt"
	"strings"
)

// network returns a NAD of a macvlan with whereabouts as its IPAM plugin, keys for
// whereabouts' configuration, and further plugins of the chain.
func network(name, keys string, chain ...string) string {
	first := fmt.Sprintf(`{"type":"macvlan","master":"%s","mode":"bridge","ipam":{"type":"whereabouts",%s}}`, master, keys)
	return fmt.Sprintf(`
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %[1]s}
spec:
  config: '{"cniVersion":"1.0.0","name":"%[1]s","plugins":[%[2]s]}'
`, name, strings.Join(append([]string{first}, chain...), ","))
}

// inRange returns a NAD with addresses of a range.
func inRange(name, cidr string, chain ...string) string {
	return network(name, fmt.Sprintf(`"range":%q`, cidr), chain...)
}

// flaky is a CNI plugin for the end of a chain. It dies in its first three ADDs, as a
// plugin does that the kernel kills or that is being replaced, and later passes on the
// result of the previous plugin.
const flaky = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
ADD)
	echo >>` + flakyRuns + `
	[ $(wc -l <` + flakyRuns + `) -gt 3 ] || kill -9 $$
	# libcni writes the configuration with its keys in order; type follows prevResult.
	echo "$input" | sed 's/.*"prevResult"://; s/,"type":"flaky"}$//' ;;
esac
`

// flakyRuns has a line for each ADD of flaky on the node.
const flakyRuns = "/run/nadra-ipam-flaky"

// held is a CNI plugin for the end of a chain. Its ADD passes on the result of the previous
// plugin once the node has no file heldBy.
const held = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
ADD)
	while [ -e ` + heldBy + ` ]; do sleep 0.1; done
	echo "$input" | sed 's/.*"prevResult"://; s/,"type":"held"}$//' ;;
esac
`

// heldBy is the file that holds the plugin held.
const heldBy = "/run/nadra-ipam-held"
