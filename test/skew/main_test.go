//go:build e2e

// Package skew replaces nadra by another version of nadra, and back, on a real node on which pods
// come and go all the time: the version before is built from the commit in the file previous, by
// the repository's own history. It has only tests.
package skew

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the master of macvlan networks.
const master = "lan0"

var (
	theLab *lab.Lab
	// before is the version before, and now the present one.
	before, now version
	// interrupted ends when a person stops the run.
	interrupted context.Context
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "skew", Start: start, Install: install, Tests: m.Run}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted = ctx
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about spec.nodeName, with each such pod
	archives, err := lab.Archives()
	if err != nil {
		return nil, err
	}
	now = version{tree: lab.Root(), bin: lab.Root() + "/bin", tag: "dev"}
	if before, err = buildPrevious(ctx); err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{Dir: dir, ImageArchives: append(archives, before.archives()...), Out: os.Stderr})
}

// install installs the version before.
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
	if err := theLab.Label(ctx, "node/"+c.Node(1).Name(), "nadra"); err != nil {
		return err
	}
	if err := before.install(ctx, c); err != nil {
		return err
	}
	return theLab.WaitController(ctx)
}
