//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestDeviceInfoInStatus checks that a plugin's device information file is in
// network-status, and is deleted with the attachment (behaviours A5-60 to A5-65).
func TestDeviceInfoInStatus(t *testing.T) {
	f := setup(t, "deviceinfo")
	f.bridge("br-info")
	installPlugin(t, "nadra-tells", `conf=$(cat)
path=$(echo "$conf" | sed -n 's/.*"CNIDeviceInfoFile":"\([^"]*\)".*/\1/p')
[ $CNI_COMMAND = ADD ] || exit 0
echo '{"type":"vhost-user","version":"1.1.0","vhost-user":{"mode":"client","path":"/run/x.sock"}}' >"$path"
echo "$conf" | sed -n 's/.*"prevResult":\(.*\),"runtimeConfig".*/\1/p'`)
	f.nad("blue", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","bridge":"br-info"},
		{"type":"nadra-tells","capabilities":{"CNIDeviceInfoFile":true}}]}`)
	f.Must(f.Published(f.Ctx, "deviceinfo/blue"))
	pod := f.start("web", lab.Want{Network: "blue"})
	info := f.status(pod, "deviceinfo/blue").DeviceInfo
	if info == nil || info.VhostUser == nil || info.VhostUser.Path != "/run/x.sock" {
		t.Errorf("device-info %+v", info)
	}
	const files = "ls /run/k8s.cni.cncf.io/devinfo/cni"
	if got := f.sh(files); !strings.HasPrefix(got, "deviceinfo-blue-") || !strings.HasSuffix(strings.TrimSpace(got), "_net1") {
		t.Errorf("device information files: %q", got)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.Eventually(2*time.Minute, func(context.Context) error {
		if left := strings.TrimSpace(f.sh(files)); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}
