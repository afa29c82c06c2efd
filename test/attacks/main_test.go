//go:build e2e

// Package attacks plays attackers on a real cluster. Each row has the privileges of its attacker and
// nothing else: a tenant's service account, a connection from the pod network, the token of a node's
// driver, the controller's token. A row fails if the attack does harm, or if the refusal does not say
// why. The package has only tests; docs/security/threat-model.md names each of them.
//
// ATTACK_PODS is the number of pods on a slow network, 40 by default.
package attacks

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// results has the results of all rows.
	results tally
)

// tally counts rows.
type tally struct {
	mu             sync.Mutex
	tried, refused int
	harmed         []string
}

// add counts a row: harm describes what the attack did, if anything; failed is set if the row could
// not be decided.
func (t *tally) add(row, harm string, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried++
	switch {
	case harm != "":
		t.harmed = append(t.harmed, row+": "+harm)
	case !failed:
		t.refused++
	}
}

// print prints the harm of each row, and the totals.
func (t *tally) print() {
	for _, row := range t.harmed {
		fmt.Println("harmed by", row)
	}
	fmt.Printf("attacks: tried=%d refused=%d harmed=%d\n", t.tried, t.refused, len(t.harmed))
}

func TestMain(m *testing.M) {
	lab.Suite{Name: "attacks", Start: start, Install: install, Tests: m.Run, Finally: results.print}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted = ctx
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about spec.nodeName, with each such pod
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: dir, Nodes: 2,
		NRITimeout: 2 * time.Second, // the runtime's own default, and the hard case
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install gives both nodes to nadra, and installs the lane's plugins.
func install(ctx context.Context, _ *cluster.Cluster) error {
	if err := theLab.InstallController(ctx); err != nil {
		return err
	}
	return installPlugins()
}

func installPlugins() error {
	for _, n := range theLab.Cluster.Nodes() {
		for name, script := range plugins {
			if err := lab.WriteHostFile(n, theLab.Cluster.Layout().CNIPrograms+"/"+name, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}
