//go:build e2e

package ipam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
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

// installPlugin installs a CNI plugin for the end of a chain on all nodes. Its ADD runs a
// script, and then passes on the result of the previous plugin.
func installPlugin(t *testing.T, name, add string) {
	t.Helper()
	// libcni writes the configuration with its keys in order; type follows prevResult.
	script := `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
ADD)
	` + add + `
	echo "$input" | sed 's/.*"prevResult"://; s/,"type":"` + name + `"}$//' ;;
esac
`
	for _, n := range theLab.Cluster.Nodes() {
		if err := lab.WriteHostFile(n, "/opt/cni/bin/"+name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	// flaky dies in its first three ADDs, as a plugin does that the kernel kills or that is
	// being replaced.
	flaky = "echo >>" + flakyRuns + "; [ $(wc -l <" + flakyRuns + ") -gt 3 ] || kill -9 $$"
	// flakyRuns has a line for each ADD of flaky on the node.
	flakyRuns = "/run/nadra-ipam-flaky"
	// held waits while the node has the file heldBy.
	held   = "while [ -e " + heldBy + " ]; do sleep 0.1; done"
	heldBy = "/run/nadra-ipam-held"
)
