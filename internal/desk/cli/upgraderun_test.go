package cli

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
)

// TestMultusDirs checks that an upgrade uses the driver's directories, of which the usual ones
// may be read-only, unless the user names one.
func TestMultusDirs(t *testing.T) {
	elsewhere := &doctor.Nadra{Args: []string{"--state-dir=/srv/nadra", "--cni-conf-dir=/srv/cni/net.d"}}
	for _, tt := range []struct {
		driver           *doctor.Nadra
		flag, conf, kept string
	}{
		{nil, "", "/etc/cni/net.d", "/var/lib/nadra/multus"},
		{elsewhere, "", "/srv/cni/net.d", "/srv/nadra/multus"},
		{elsewhere, "/etc/kubernetes/cni/net.d", "/etc/kubernetes/cni/net.d", "/srv/nadra/multus"},
	} {
		if conf, kept := multusDirs(tt.driver, tt.flag); conf != tt.conf || kept != tt.kept {
			t.Errorf("with --cni-conf-dir=%s: %s and %s, want %s and %s", tt.flag, conf, kept, tt.conf, tt.kept)
		}
	}
}
