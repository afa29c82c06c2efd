package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/source"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/internal/upgraderun"
)

// settingsFlags are the flags for the window and the hooks of a run. A flag that is not
// given keeps what the last run has stored; an empty one removes it.
type settingsFlags struct {
	set                   *pflag.FlagSet
	window, before, after string
	timeout               time.Duration
	noWait                bool
}

// add adds the flags.
func (f *settingsFlags) add(flags *pflag.FlagSet) {
	f.set = flags
	flags.StringVar(&f.window, "window", "", `begin nodes only in this maintenance window, "[DAYS] HH:MM-HH:MM [TIME ZONE]" (default the stored one)`)
	flags.BoolVar(&f.noWait, "no-wait", false, "end with exit code 6 outside the window, instead of waiting")
	flags.StringVar(&f.before, "before-wave", "", "run exec:COMMAND LINE or job:FILE before each wave (default the stored one)")
	flags.StringVar(&f.after, "after-wave", "", "run exec:COMMAND LINE or job:FILE after each wave (default the stored one)")
	flags.DurationVar(&f.timeout, "hook-timeout", upgrade.DefaultHookTimeout, "time limit for each run of --before-wave or --after-wave")
}

// check rejects invalid values.
func (f *settingsFlags) check() error {
	if f.timeout <= 0 {
		return fmt.Errorf("--hook-timeout is %s: it must be more than zero", f.timeout)
	}
	return nil
}

// over returns the settings of the flags and, for flags that are not given, the stored
// ones. kept has only the stored hooks that will run, which nobody has approved yet.
func (f *settingsFlags) over(stored upgrade.Settings) (settings, kept upgrade.Settings, err error) {
	settings = stored
	if f.set.Changed("window") {
		settings.Window = ""
		if f.window != "" {
			w, err := upgrade.ParseWindow(f.window, localZone())
			if err != nil {
				return settings, kept, fmt.Errorf("reading --window: %w", err)
			}
			settings.Window = w.String()
		}
	}
	for _, hook := range []struct {
		flag, text string
		to, kept   **upgrade.Hook
	}{{"before-wave", f.before, &settings.BeforeWave, &kept.BeforeWave}, {"after-wave", f.after, &settings.AfterWave, &kept.AfterWave}} {
		if !f.set.Changed(hook.flag) {
			*hook.kept = *hook.to
			continue
		}
		*hook.to = nil
		if hook.text != "" {
			if *hook.to, err = upgrade.ParseHook(hook.text, source.ReadFile); err != nil {
				return settings, kept, fmt.Errorf("reading --%s %q: %w", hook.flag, hook.text, err)
			}
		}
	}
	if f.set.Changed("hook-timeout") {
		settings.HookTimeout = metav1.Duration{Duration: f.timeout}
	}
	if err := settings.Validate(); err != nil {
		return settings, kept, fmt.Errorf("%w: replace it by --window, --before-wave or --after-wave", err)
	}
	return settings, kept, nil
}

// stored returns the state of the upgrade in the cluster, or a new one.
func stored(ctx context.Context, store upgraderun.Store) (*upgrade.State, error) {
	_, state, _, err := store.Load(ctx)
	if errors.Is(err, upgraderun.ErrNone) {
		return upgrade.NewState(), nil
	}
	return state, err
}

// hasHook reports whether settings have a hook.
func hasHook(s upgrade.Settings) bool { return s.BeforeWave != nil || s.AfterWave != nil }

// showHooks prints hooks that the cluster has stored. Whoever may write there could have
// changed them, so a person must see all of each.
func showHooks(w io.Writer, s upgrade.Settings) {
	for _, point := range []upgrade.HookPoint{upgrade.BeforeWave, upgrade.AfterWave} {
		hook := s.Hook(point)
		switch {
		case hook == nil:
		case hook.Job == nil:
			_, _ = fmt.Fprintf(w, "stored hook %s, which runs on this machine as you:\n%s\n", point, indented(hook.Exec))
		default:
			text, err := yaml.Marshal(hook.Job)
			if err != nil {
				text = []byte(err.Error())
			}
			_, _ = fmt.Fprintf(w, "stored hook %s, a Job that is created with your rights:\n%s\n", point, indented(string(text)))
		}
	}
}

// indented returns a text for a terminal, indented by two spaces.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(upgrade.Visible(text), "\n"), "\n", "\n  ")
}
