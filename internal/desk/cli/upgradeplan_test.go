package cli

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
)

// TestPlanNamesNamespaces checks that --first and --exclude know each namespace that a plan has: also one whose only
// workload stays with Multus.
func TestPlanNamesNamespaces(t *testing.T) {
	facts := upgrade.Facts{
		BesideMultus: true,
		Pods:         []upgrade.Pod{{Namespace: "core"}},
		Stays:        []upgrade.Stay{{Workload: upgrade.Workload{Kind: "CronJob", Namespace: "ran", Name: "nightly"}}},
	}
	for namespace, known := range map[string]bool{"core": true, "ran": true, "typo": false} {
		o := planOptions{Options: upgrade.Options{Exclude: []string{namespace}}}
		if err := o.checkNames(facts); (err == nil) != known {
			t.Errorf("--exclude %s: %v", namespace, err)
		}
	}
}
