package upgrade

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultHookTimeout is the default time limit of a hook.
const DefaultHookTimeout = 30 * time.Minute

// Settings say when a plan is carried out, and what runs before and after its waves. A
// run keeps them with the state, so that every later run has them.
type Settings struct {
	// Window is the maintenance window, as ParseWindow parses it; empty without one.
	Window string `json:"window,omitempty"`
	// BeforeWave and AfterWave are the hooks; nil without one.
	BeforeWave *Hook `json:"beforeWave,omitempty"`
	AfterWave  *Hook `json:"afterWave,omitempty"`
	// HookTimeout is the time limit of each hook; zero is DefaultHookTimeout.
	HookTimeout metav1.Duration `json:"hookTimeout,omitzero"`
}

// Hook returns the hook of a point; nil without one.
func (s *Settings) Hook(p HookPoint) *Hook {
	if p == AfterWave {
		return s.AfterWave
	}
	return s.BeforeWave
}

// HookLimit returns the time limit of each hook.
func (s *Settings) HookLimit() time.Duration {
	if s.HookTimeout.Duration <= 0 {
		return DefaultHookTimeout
	}
	return s.HookTimeout.Duration
}

// Maintenance parses the window.
func (s *Settings) Maintenance() (Window, error) {
	if s.Window == "" {
		return Window{}, nil
	}
	return ParseWindow(s.Window, "")
}

// Validate rejects settings with which no plan can be carried out. A rollback does not
// need valid settings.
func (s *Settings) Validate() error {
	if _, err := s.Maintenance(); err != nil {
		return fmt.Errorf("reading settings.window: %w", err)
	}
	if err := s.BeforeWave.validate(); err != nil {
		return fmt.Errorf("reading settings.beforeWave: %w", err)
	}
	if err := s.AfterWave.validate(); err != nil {
		return fmt.Errorf("reading settings.afterWave: %w", err)
	}
	return nil
}
