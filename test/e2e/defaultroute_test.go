//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestDefaultRoute checks that the pod's default routes use the attachment that requests
// them, in both families, and no other (behaviours A2-22, A2-23, A3-40, B7).
func TestDefaultRoute(t *testing.T) {
	f := setup(t, "defaultroute")
	f.bridge("br-gw")
	f.nad("dual", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-gw","ipam":{"type":"host-local",
		"ranges":[[{"subnet":"10.61.0.0/24"}],[{"subnet":"fd61::/64"}]]}}`)
	f.nad("greedy", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-gw","ipam":{"type":"host-local",
		"subnet":"10.62.0.0/24","gateway":"10.62.0.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"10.63.0.0/16"}]}}`)
	f.Must(f.Published(f.Ctx, "defaultroute/dual", "defaultroute/greedy"))

	for _, tc := range []struct {
		name string
		asks []any
		want string
	}{
		{"both", []any{"10.61.0.1", "fd61::1"}, "default via 10.61.0.1 dev net1\ndefault via fd61::1 dev net1 metric 1024"},
		{"alternatives", []any{"10.61.0.1", "10.61.0.2"}, "default via 10.61.0.1 dev net1\ndefault via 10.61.0.2 dev net1 metric 1"},
		{"none", []any{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := f.start(tc.name, lab.Want{Network: "dual", Config: map[string]any{"defaultRoute": tc.asks}}, lab.Want{Network: "greedy"})
			if diff := cmp.Diff(tc.want, f.defaultRoutes(tc.name)); diff != "" {
				t.Errorf("default routes (-want +got):\n%s", diff)
			}
			for i, s := range f.statuses(pod) {
				var want []string
				for _, gateway := range tc.asks {
					if i == 1 {
						want = append(want, gateway.(string))
					}
				}
				if diff := cmp.Diff(want, s.Gateway); diff != "" {
					t.Errorf("gateways of %s in network-status (-want +got):\n%s", s.Interface, diff)
				}
			}
			f.Must(f.DeletePod(f.Ctx, f.NS, tc.name))
		})
	}
}

// defaultRoutes returns a pod's default routes in both families, a line for each.
func (f *fixture) defaultRoutes(pod string) string {
	f.Helper()
	var lines []string
	for _, family := range []string{"-4", "-6"} {
		out, err := f.Exec(f.Ctx, f.NS, pod, "ip", family, "route", "show", "default")
		if err != nil {
			f.Fatalf("listing routes: %v\n%s", err, out)
		}
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if i := len(fields); i > 2 && fields[i-2] == "pref" {
				fields = fields[:i-2]
			}
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return strings.Join(lines, "\n")
}
