//go:build e2e

// Package beside proves that nadra and Multus serve pods on one node, each its own: a real
// cluster of one node whose CNI is the real Multus with its daemon, and nadra as
// manifests/beside-multus installs it. It has only tests.
//
// Pods of two namespaces are created, scaled and deleted at random, while Multus' daemon, the
// kubelet and nadra's driver are killed, and Multus is removed and put back. Each pod is checked as
// soon as it is Ready: each network once, in its namespace, in network-status, and in the files of
// its own program alone; no address at two pods. The last line counts what was wrong:
//
//	beside-lane: pods=… twice=0 missing=0 left-behind=0
//
// Multus v4.3.0 frees no address of a default network that host-local gives, because it runs DEL
// without the network's ranges. The lane frees those of pods that are gone, or the range would be
// full after 250 pods. Multus' own files are not counted: it keeps the file of a sandbox in whose
// ADD its daemon was killed, and those of pods that ended while Multus was removed.
//
//	BESIDE_PODS  how many pods, 100 by default
//	BESIDE_SEED  which schedule; drawn and printed by default
package beside

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the master of macvlan networks.
const master = "lan0"

var (
	theLab *lab.Lab
	// multusPrograms is the folder of the daemon and the shim.
	multusPrograms string
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "beside", Start: start, Install: install, Tests: m.Run}.Main()
}

func start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	archives, err := lab.Archives()
	if err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{Dir: dir, ImageArchives: archives, Out: os.Stderr})
}

// install makes Multus the node's CNI first, because it is there when a user installs nadra.
func install(ctx context.Context, c *cluster.Cluster) (err error) {
	if theLab, err = lab.New(c); err != nil {
		return err
	}
	if err := lab.MakeLink(ctx, c.Node(1), master); err != nil {
		return err
	}
	if err := theLab.InstallCRD(ctx); err != nil {
		return err
	}
	if multusPrograms, err = cluster.BuildThickMultus(ctx, os.Stderr); err != nil {
		return err
	}
	if err := c.Node(1).Multus().Install(ctx, multusPrograms); err != nil {
		return err
	}
	return installNadra(ctx, c)
}

// installNadra installs nadra beside Multus.
func installNadra(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(lab.Root(), "manifests", "beside-multus")); err != nil {
		return err
	}
	if err := theLab.WaitDriver(ctx); err != nil {
		return err
	}
	return theLab.WaitController(ctx)
}
