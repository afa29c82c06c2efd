package report

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// The status of an upgrade has its window and its hooks until it has ended.
func TestUpgradeStatusSettings(t *testing.T) {
	plan := &upgrade.Plan{Waves: []upgrade.Wave{{Name: "wave-1", Nodes: []upgrade.NodeShare{{Name: "a"}}}}}
	settings := upgrade.Settings{Window: "Sat 22:00-04:00 Europe/Berlin", AfterWave: &upgrade.Hook{Exec: "notify\nThe upgrade is done."}}
	const head = "WAVE    NODE  DIRECTION  STEP  DONE\nwave-1  a     to-nadra   -     0/9\n\nnadra serves 0 of 1 node, and 0 namespaces.\n"
	const hook = "Hook after-wave: exec:notify\\nThe upgrade is done.\n"
	for name, tt := range map[string]struct {
		phase  upgrade.Phase
		window string
		now    string
		want   string
		json   string
	}{
		"closed":  {upgrade.Paused, settings.Window, "2026-01-09T12:00:00Z", "Window: Sat 22:00-04:00 Europe/Berlin, closed until Sat 2026-01-10 22:00 CET\n" + hook + "The upgrade is paused.\n", `"windowOpens": "2026-01-10T22:00:00+01:00"`},
		"open":    {upgrade.Running, settings.Window, "2026-01-10T21:00:00Z", "Window: Sat 22:00-04:00 Europe/Berlin, open now\n" + hook + "The upgrade is running.\n", `"windowOpen": true`},
		"none":    {upgrade.Running, "", "2026-01-10T21:00:00Z", hook + "The upgrade is running.\n", ""},
		"invalid": {upgrade.Running, "at night\x1b", "2026-01-10T21:00:00Z", "Window: at night\\x1b\n" + hook + "The upgrade is running.\n", ""},
		"ended":   {upgrade.Done, settings.Window, "2026-01-10T21:00:00Z", "The upgrade is done.\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			state := upgrade.NewState()
			state.Phase, state.Settings = tt.phase, settings
			state.Settings.Window = tt.window
			status := NewUpgradeStatus(plan, state, nil, now)
			var table, text strings.Builder
			if err := WriteUpgradeStatus(&table, "table", status); err != nil {
				t.Fatal(err)
			}
			if table.String() != head+tt.want {
				t.Errorf("status:\n%s\nwant:\n%s", table.String(), head+tt.want)
			}
			if err := WriteUpgradeStatus(&text, "json", status); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(text.String(), `"windowOpen`); has != (tt.json != "") || !strings.Contains(text.String(), tt.json) {
				t.Errorf("status:\n%s\nwant %s", text.String(), tt.json)
			}
		})
	}
}

// Beside Multus, the status has namespaces in place of nodes.
func TestUpgradeStatusBesideMultus(t *testing.T) {
	plan := &upgrade.Plan{BesideMultus: true, Waves: []upgrade.Wave{{Name: "wave-1", Namespaces: []string{"shop"}}, {Name: "wave-2", Namespaces: []string{"ran"}}}}
	state := upgrade.NewState()
	state.Rollouts["shop"] = &upgrade.RolloutState{Direction: upgrade.ToNadra, Step: upgrade.Compare}
	state.Rollouts["ran"] = &upgrade.RolloutState{Direction: upgrade.ToNadra, Step: upgrade.Label}
	var table strings.Builder
	if err := WriteUpgradeStatus(&table, "table", NewUpgradeStatus(plan, state, nil, time.Time{})); err != nil {
		t.Fatal(err)
	}
	const want = "WAVE    NAMESPACE  DIRECTION  STEP   DONE\nwave-1  shop       to-nadra   done   5/5\nwave-2  ran        to-nadra   label  3/5\n\n" +
		"nadra serves 1 of 2 namespaces beside Multus.\nThe upgrade is running.\n"
	if table.String() != want {
		t.Errorf("status:\n%s\nwant:\n%s", table.String(), want)
	}
}
