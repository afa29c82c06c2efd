//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestPodWithDHCPLeaseIsAdopted gives a node to nadra under a pod with a lease that Multus' plugin
// requested. The daemon must renew the lease all the time, and nadra's DEL must find it there and
// release it.
func TestPodWithDHCPLeaseIsAdopted(t *testing.T) {
	giveToMultus(t, theLab.Cluster.Node(1))
	d := onLAN(t, "dhcp-adopted", api.OwnerMultus)
	t.Cleanup(d.logState)
	p := d.run("adopted")
	first, inside := d.lease(p), d.held(p)
	d.Eventually(time.Minute, func(ctx context.Context) error { return d.hasSandboxes(ctx, "", 1) })

	giveToNadra(t)
	d.adopted()
	d.Must(d.hasSandboxes(d.Ctx, "/nadra", 1))
	d.renewed(p)
	if now := d.lease(p); now.address != first.address || now.client != first.client {
		d.Errorf("the pod's lease was of %s for %q and is of %s for %q", first.address, first.client, now.address, now.client)
	}
	if now := d.held(p); fmt.Sprint(now) != fmt.Sprint(inside) {
		d.Errorf("the pod had the addresses %v and has %v", inside, now)
	}
	if _, sent := d.releases.of(first.client); sent {
		d.Error("a DHCPRELEASE was sent for a pod that runs")
	}
	d.end("adopted")
	d.released(first.client)
	d.Eventually(time.Minute, func(ctx context.Context) error { return d.hasSandboxes(ctx, "/nadra", 0) })
	if pending := d.pending(); pending != 0 {
		d.Errorf("%d DELs are pending, want 0", pending)
	}
}

// hasSandboxes returns an error unless the node has so many files of sandboxes in a directory of
// Multus' directory.
func (d *dhcp) hasSandboxes(ctx context.Context, dir string, want int) error {
	path := "/var/lib/cni/multus" + dir
	out, err := d.node.Exec(ctx, "sh", "-c", "[ ! -d "+path+" ] || find "+path+" -maxdepth 1 -type f")
	if lines := strings.Count(string(out), "\n"); err == nil && lines != want {
		err = fmt.Errorf("%s has %d files of sandboxes, want %d: %s", path, lines, want, out)
	}
	return err
}
