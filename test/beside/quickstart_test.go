//go:build e2e

package beside

import (
	"context"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestQuickstart carries out docs/quickstart/existing-cluster.md as a reader would, on a node with Multus and
// without nadra, and installs nadra again.
func TestQuickstart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	f := &lab.Fixture{Lab: theLab, T: t, Ctx: ctx}
	steps, err := lab.ReadGuide("quickstart/existing-cluster.md")
	f.Must(err)
	if printed, err := f.Nadra(ctx, "uninstall", "--yes"); err != nil || printed.Code != 0 {
		t.Fatalf("removing nadra first: %v\n%s%s", err, printed.Out, printed.Err)
	}
	// The node has no registry, but an image with the programs of busybox.
	_, err = theLab.Cluster.Node(1).Exec(ctx, "ctr", "--namespace", "k8s.io", "images", "tag", "--force", "localhost/test:1", "docker.io/library/busybox:1.37")
	f.Must(err)
	for _, s := range steps {
		printed, err := s.Run(ctx, theLab.Cluster)
		f.Must(err)
		t.Logf("%s%s", s.Commands, printed)
	}
	f.Must(installNadra(ctx, theLab.Cluster))
}
