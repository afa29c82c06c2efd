//go:build e2e

package faults

import (
	"os"
	"strings"
)

// counter is a CNI plugin for the end of a chain. It passes on the result of the previous plugin,
// and adds a line to a file on the node for each run.
const counter = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
# libcni writes the configuration with its keys in order; type follows prevResult.
ADD) echo "$input" | sed 's/.*"prevResult"://; s/,"type":"counter"}$//' ;;
esac
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME" >>` + suiteDir + `/counted
`

// runs returns how often the plugin has run a command, by sandbox and interface.
func (a *adoption) runs(command string) map[string]int {
	a.t.Helper()
	content, err := os.ReadFile(suiteFile(a.node, "counted"))
	a.must(err)
	out := map[string]int{}
	for line := range strings.Lines(string(content)) {
		if rest, found := strings.CutPrefix(line, command+" "); found {
			out[strings.TrimSpace(rest)]++
		}
	}
	return out
}

// countDELs checks that each attachment that ended on nadra's node got one ADD and one DEL, and each other one an ADD and a DEL. The one whose DEL had run when the
// driver died got another one. So may one attachment of each sandbox: the driver repeats the DEL during
// which the runtime removes the namespace, because the hook waits only so long for DELs.
func (a *adoption) countDELs(attachments int) {
	a.t.Helper()
	adds, dels, again := a.runs("ADD"), a.runs("DEL"), map[string]int{}
	if len(adds) != attachments {
		a.t.Errorf("%d attachments got an ADD, want %d: %v", len(adds), attachments, adds)
	}
	ofNadra := func(id string) bool {
		for _, s := range a.sandboxes {
			if s.ID == id {
				return true
			}
		}
		return false
	}
	for of, count := range adds {
		sandbox, _, _ := strings.Cut(of, " ")
		switch {
		case count == 1 && dels[of] == 1:
		case count == 1 && dels[of] > 1 && !ofNadra(sandbox): // Multus runs DEL whenever the runtime stops the sandbox
		case count == 1 && dels[of] == 2:
			again[sandbox]++
		default:
			a.t.Errorf("attachment %s got %d ADDs and %d DELs", of, count, dels[of])
		}
	}
	died := a.sandboxes["two-2"].ID
	if again[died] == 0 {
		a.t.Errorf("no attachment of pod two-2 got two DELs; all DELs: %v", dels)
	}
	for sandbox, count := range again {
		if sandbox == died {
			count--
		}
		if count > 1 {
			a.t.Errorf("%d attachments of sandbox %s got two DELs; all DELs: %v", count, sandbox, dels)
		}
	}
	if len(dels) != attachments {
		a.t.Errorf("%d attachments got a DEL, want %d: %v", len(dels), attachments, dels)
	}
}
