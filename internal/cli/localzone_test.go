package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestZoneName(t *testing.T) {
	link := func(target string) func(etc string) error {
		return func(etc string) error { return os.Symlink(target, filepath.Join(etc, "localtime")) }
	}
	copied := func(timezone string) func(etc string) error {
		return func(etc string) error {
			if err := os.WriteFile(filepath.Join(etc, "localtime"), []byte("TZif2"), 0o600); err != nil || timezone == "" {
				return err
			}
			return os.WriteFile(filepath.Join(etc, "timezone"), []byte(timezone), 0o600)
		}
	}
	for name, tt := range map[string]struct {
		tz   string
		set  bool
		make func(etc string) error
		want string
	}{
		"variable":       {"America/New_York", true, link("/usr/share/zoneinfo/Europe/Berlin"), "America/New_York"},
		"with a colon":   {":Asia/Tokyo", true, nil, "Asia/Tokyo"},
		"file":           {"/usr/share/zoneinfo/posix/Asia/Tokyo", true, nil, "Asia/Tokyo"},
		"other file":     {"/srv/my.tz", true, nil, ""},
		"empty variable": {"", true, link("/usr/share/zoneinfo/Europe/Berlin"), "UTC"},
		"link":           {"", false, link("/usr/share/zoneinfo/Europe/Berlin"), "Europe/Berlin"},
		"relative link":  {"", false, link("../usr/share/zoneinfo/America/Argentina/Salta"), "America/Argentina/Salta"},
		"macOS":          {"", false, link("/var/db/timezone/zoneinfo/Europe/Paris"), "Europe/Paris"},
		"other link":     {"", false, link("/srv/my.tz"), ""},
		"copy":           {"", false, copied("Europe/Madrid\n"), "Europe/Madrid"},
		"nameless copy":  {"", false, copied(""), ""},
		"nothing":        {"", false, nil, "UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			if tt.make != nil {
				if err := tt.make(etc); err != nil {
					t.Fatal(err)
				}
			}
			if got := zoneName(tt.tz, tt.set, etc); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
