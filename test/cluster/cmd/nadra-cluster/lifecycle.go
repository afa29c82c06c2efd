package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nadra-dev/nadra/test/cluster"
)

func build(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errUsage
	}
	_, err := cluster.Build(ctx, os.Stdout)
	return err
}

// up starts the cluster. It succeeds if one is running already.
func up(ctx context.Context, args []string) error {
	options := cluster.Options{Out: os.Stdout}
	flags := newArguments("up")
	flags.IntVar(&options.Nodes, "nodes", 1, "number of nodes")
	flags.DurationVar(&options.NRITimeout, "nri-timeout", 0, "how long containerd waits for an NRI plugin (default 5s)")
	flags.Var((*list)(&options.ImageArchives), "image", "image archive to import on every node (repeatable)")
	if err := flags.parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errUsage
	}
	options.Dir = *flags.dir
	c, err := cluster.Start(ctx, options)
	if errors.Is(err, cluster.ErrRunning) {
		c, err = cluster.Open(options.Dir)
		if err == nil {
			fmt.Println("the cluster is already running")
		}
	}
	if err != nil {
		return err
	}
	fmt.Println("run folder:", c.Dir())
	return nil
}

func down(ctx context.Context, args []string) error {
	flags := newArguments("down")
	if err := flags.parse(args); err != nil {
		return err
	}
	if err := cluster.Stop(ctx, *flags.dir); err != nil {
		return err
	}
	fmt.Println("the cluster is gone")
	return nil
}

func prune(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errUsage
	}
	return cluster.Prune(ctx, os.Stdout)
}

// machine runs as the first process of a machine; it is not for people.
func machine(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	return cluster.RunMachine(args[0])
}
