//go:build e2e

// Package upgrade proves the upgrade path: a real cluster of two nodes under the real
// Multus, as a DaemonSet, moves to nadra and back while its pods run. It has only tests.
//
//	UPGRADE_MATRIX  a regular expression of failing steps, such as 'disk full in adopt', or . for
//	                all 150; by default five, drawn from the seed, one of each fault
//	UPGRADE_SEED    the seed of what is random; drawn and printed by default
//
// NADRA_MULTUS=4.2 takes v4.2.4 of Multus in place of v4.3.0. e2e-crio always has it, but without its
// daemon; with the daemon, TestAdopt was run on 2026-11-26:
//
//	make e2e-upgrade NADRA_MULTUS=4.2 RUN='^TestAdopt$$'
package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the master of the stack's macvlan networks.
const master = "lan0"

var theLab *lab.Lab

func TestMain(m *testing.M) {
	lab.Suite{Name: "upgrade", Start: start, Install: install, Tests: m.Run}.Main()
}

func start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	archives, err := lab.Archives()
	if err != nil {
		return nil, err
	}
	multus, err := lab.MultusArchive(ctx, dir, os.Stderr)
	if err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), Nodes: 2, ImageArchives: append(archives, multus), Out: os.Stderr,
		KubeletConfig: map[string]any{"staticPodPath": staticPods},
		OnBoot:        prepareNode(filepath.Join(dir, "disks")),
	})
}

// stateDir is the driver's directory on a node. It is on a file system of its own, together with
// that of the CNI plugins, so that a test can fill it.
const stateDir = "/var/lib/nadra"

// prepareNode returns a function that gives a node, at every boot, the masters of the stack's networks
// and a small file system for stateDir and /var/lib/cni. dir keeps the file systems.
func prepareNode(dir string) func(context.Context, *cluster.Node) error {
	return func(ctx context.Context, n *cluster.Node) error {
		_, err := n.Exec(ctx, "sh", "-ec", strings.NewReplacer("DISK", filepath.Join(dir, n.Name()), "STATE", stateDir).Replace(`
if [ ! -d DISK ]; then
	mkdir -p DISK/root
	truncate -s 16M DISK/ext4
	mkfs.ext4 -q -m 0 DISK/ext4
fi
mount -o loop DISK/ext4 DISK/root
mkdir -p DISK/root/nadra DISK/root/cni
mount --bind DISK/root/nadra STATE
mount --bind DISK/root/cni /var/lib/cni`))
		if err != nil {
			return fmt.Errorf("mounting a small file system: %w", err)
		}
		for _, name := range masters {
			if err := lab.MakeLink(ctx, n, name); err != nil {
				return err
			}
		}
		return nil
	}
}

// install makes a cluster under Multus: it installs its DaemonSet on all nodes, and nothing
// of nadra.
func install(ctx context.Context, c *cluster.Cluster) (err error) {
	if theLab, err = lab.New(c); err != nil {
		return err
	}
	if err := theLab.InstallCRD(ctx); err != nil {
		return err
	}
	return theLab.InstallMultus(ctx, nil)
}
