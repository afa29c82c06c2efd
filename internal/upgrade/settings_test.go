package upgrade

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSettings(t *testing.T) {
	manifest, err := parseJob([]byte(jobManifest))
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	s.Settings = Settings{Window: "22:00-04:00 UTC", BeforeWave: &Hook{Exec: "curl -H 'token: secret'"}, AfterWave: &Hook{Job: manifest}, HookTimeout: metav1.Duration{Duration: time.Minute}}
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseState(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Settings, again.Settings); diff != "" {
		t.Errorf("read and written again (-want +got):\n%s", diff)
	}
	if err := again.Settings.Validate(); err != nil {
		t.Error(err)
	}
	if again.Settings.HookLimit() != time.Minute || (&Settings{}).HookLimit() != DefaultHookTimeout {
		t.Errorf("limits %s and %s", again.Settings.HookLimit(), (&Settings{}).HookLimit())
	}
	for name, tt := range map[string]struct {
		settings Settings
		want     string
	}{
		"window": {Settings{Window: "at night"}, `reading settings.window: window "at night"`},
		"both":   {Settings{BeforeWave: &Hook{Exec: "x", Job: manifest}}, "reading settings.beforeWave: it must be either"},
		"none":   {Settings{AfterWave: &Hook{}}, "reading settings.afterWave: it must be either"},
	} {
		if err := tt.settings.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}
