package report

import (
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
)

// Beside Multus, the status has namespaces in place of nodes.
func TestUpgradeStatusBesideMultus(t *testing.T) {
	plan := &upgrade.Plan{BesideMultus: true, Waves: []upgrade.Wave{{Name: "wave-1", Namespaces: []string{"shop"}}, {Name: "wave-2", Namespaces: []string{"ran"}}}}
	state := upgrade.NewState()
	state.Rollouts["shop"] = &upgrade.Move{Direction: upgrade.ToNadra, Step: upgrade.Compare}
	state.Rollouts["ran"] = &upgrade.Move{Direction: upgrade.ToNadra, Step: upgrade.Label}
	var table strings.Builder
	if err := Upgrade.Write(&table, "table", NewUpgradeStatus(plan, state, nil, time.Time{})); err != nil {
		t.Fatal(err)
	}
	const want = "WAVE    NAMESPACE  DIRECTION  STEP   DONE\nwave-1  shop       to-nadra   done   5/5\nwave-2  ran        to-nadra   label  3/5\n\n" +
		"nadra serves 1 of 2 namespaces beside Multus.\nThe upgrade is running.\n"
	if table.String() != want {
		t.Errorf("status:\n%s\nwant:\n%s", table.String(), want)
	}
}
