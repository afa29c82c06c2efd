//go:build e2e

// Package autoscalers shows what an autoscaler makes of nadra's claims and slices. The real Karpenter runs with its
// provider kwok beside a cluster of one node with nadra: it creates NodeClaims and Node objects, and the real kwok makes
// these nodes Ready and their pods Running. The scheduler, the webhook, the driver and the slices are real as well. The
// real node is cordoned, so that no pod of a test fits there.
//
// The programs run in the network of the control plane, with the administrator's rights. The package has only tests. Its
// last line counts the cases.
package autoscalers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the interface of the real node that the macvlan networks have as master.
const master = "lan0"

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// runFolder is a temporary folder, with the programs' logs.
	runFolder string
	karpenter cluster.Karpenter
	// stopKwok ends kwok.
	stopKwok = func() {}
	// cases and passed count the cases.
	cases, passed atomic.Int32
)

func TestMain(m *testing.M) {
	tests := func() int {
		defer func() { stopKwok() }()
		return m.Run()
	}
	lab.Suite{Name: "autoscalers", Start: start, Install: install, Tests: tests, Finally: func() {
		fmt.Printf("autoscalers: cases=%d passed=%d\n", cases.Load(), passed.Load())
	}}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted, runFolder = ctx, dir
	if karpenter, err = cluster.BuildKarpenter(ctx, os.Stderr); err != nil {
		return nil, err
	}
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir:    filepath.Join(dir, "cluster"),
		OnBoot: lab.LinkAtBoot(master),
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install gives the node to nadra with its controller, installs the CRDs of Karpenter, and starts kwok.
func install(ctx context.Context, c *cluster.Cluster) error {
	if err := theLab.InstallController(ctx); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "cordon", c.Node(1).Name()); err != nil {
		return err
	}
	for _, folder := range karpenter.CRDs {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", folder); err != nil {
			return fmt.Errorf("installing the CRDs of Karpenter: %w", err)
		}
	}
	if err := lab.WaitEstablished(ctx, c, "--all"); err != nil {
		return err
	}
	args := []string{"--kubeconfig=" + c.Kubeconfig(), "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40"}
	for _, file := range karpenter.Stages {
		args = append(args, "--config="+file)
	}
	var err error
	stopKwok, err = run(ctx, "kwok", karpenter.Kwok, args...)
	return err
}

// run starts a program in the network of the control plane, with a log of its name, and returns how to end it.
func run(ctx context.Context, name, program string, args ...string) (stop func(), err error) {
	log, err := os.OpenFile(logFile(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	machine := theLab.Cluster.ControlPlane()
	ctx, cancel := context.WithCancel(ctx)
	cmd := machine.Command(ctx, program, args...)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+theLab.Cluster.Kubeconfig(), "HOME="+runFolder)
	cmd.Stdout, cmd.Stderr = log, log
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := machine.Run(cmd); ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "%s has ended by itself: %v\n", name, err)
		}
	}()
	return func() {
		cancel()
		<-ended
		log.Close()
	}, nil
}

// logFile returns the path of a program's log.
func logFile(name string) string { return filepath.Join(runFolder, name+".log") }
