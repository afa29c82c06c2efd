package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Start builds what is missing, starts a cluster and returns when pods can run on all of
// its nodes. The cluster outlives the calling process. Start removes the rest of a cluster
// that was not stopped properly.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		return nil, errors.New("starting a cluster needs root, for namespaces and control groups")
	}
	if err := refuseRunning(options.Dir); err != nil {
		return nil, err
	}
	artifacts, err := Build(ctx, options.Out)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFolder(ctx, options.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Checked again, because another process may have started it meanwhile.
	if err := refuseRunning(options.Dir); err != nil {
		return nil, err
	}
	if err := tearDown(ctx, options.Dir); err != nil {
		return nil, fmt.Errorf("removing the remains of an earlier cluster: %w", err)
	}
	d := description{Options: options, Artifacts: artifacts}
	c := newCluster(d)
	started.Store(options.Dir, true)
	if err := c.bringUp(ctx); err != nil {
		return nil, c.giveUp(ctx, err)
	}
	if err := d.write(); err != nil {
		return nil, c.giveUp(ctx, err)
	}
	return c, nil
}

// started has the run folders of the clusters that this process has started and not stopped.
var started sync.Map

// StopStarted stops the clusters that this process has started and not stopped.
func StopStarted(ctx context.Context) error {
	var errs []error
	started.Range(func(dir, _ any) bool {
		errs = append(errs, Stop(ctx, dir.(string)))
		return true
	})
	return errors.Join(errs...)
}

func refuseRunning(dir string) error {
	if _, err := Open(dir); err == nil {
		return fmt.Errorf("%w in %s: stop it with 'nadra-cluster down', or use it with Open", ErrRunning, dir)
	}
	return nil
}

// bringUp starts everything, as much as possible at the same time.
func (c *Cluster) bringUp(ctx context.Context) error {
	start := time.Now()
	fmt.Fprintf(c.options.Out, "starting the control plane and %d node(s) …\n", c.options.Nodes)
	if err := c.secrets.create(c.options.Nodes+c.options.Guests, c.options.families()); err != nil {
		return fmt.Errorf("making keys and tokens: %w", err)
	}
	if err := c.bootControlPlane(ctx); err != nil {
		return err
	}
	if err := c.controlPlane.setUpBridge(c.options.families()); err != nil {
		return fmt.Errorf("setting up the network: %w", err)
	}
	for _, g := range c.guests {
		if err := g.connect(); err != nil {
			return err
		}
	}
	steps := []func(context.Context) error{c.startControlPlane}
	for _, n := range c.nodes {
		steps = append(steps, func(ctx context.Context) error { return n.firstBoot(ctx, c.options) })
	}
	if err := together(ctx, steps...); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Out, "API server and %s work after %s\n", c.artifacts.runtime().name(), time.Since(start).Round(100*time.Millisecond))
	steps = []func(context.Context) error{c.waitUsable}
	for _, n := range c.nodes {
		steps = append(steps, func(ctx context.Context) error {
			if err := n.StartComponent(ctx, Kubelet); err != nil {
				return err
			}
			return n.waitReady(ctx)
		})
	}
	if err := together(ctx, steps...); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Out, "cluster ready after %s\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// bootControlPlane boots the control plane's machine. With CRI-O, it first waits until no other cluster
// of the computer has it.
func (c *Cluster) bootControlPlane(ctx context.Context) error {
	if c.artifacts.CRIO == "" {
		return c.controlPlane.boot(ctx)
	}
	alone, err := lockedFolder(ctx, crioLock())
	if err != nil {
		return fmt.Errorf("waiting for the end of another cluster with CRI-O: %w", err)
	}
	defer alone.Close()
	c.controlPlane.held = []*os.File{alone}
	return c.controlPlane.boot(ctx)
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	for _, component := range c.controlPlane.components {
		if err := c.controlPlane.StartComponent(ctx, component.name); err != nil {
			return err
		}
	}
	return nil
}

// firstBoot boots a node with a new disk and puts the images on it.
func (n *Node) firstBoot(ctx context.Context, options Options) error {
	if err := n.createDisk(options); err != nil {
		return fmt.Errorf("creating the disk of %s: %w", n.name, err)
	}
	if err := n.bootUp(ctx); err != nil {
		return err
	}
	for _, archive := range append(n.artifacts.imageArchives(), options.ImageArchives...) {
		if err := n.ImportImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// giveUp removes a cluster that did not start, but keeps its logs.
func (c *Cluster) giveUp(ctx context.Context, reason error) error {
	logs, err := c.SaveLogs(filepath.Base(c.options.Dir) + "-failed")
	if err == nil {
		reason = fmt.Errorf("%w\n(all logs are in %s)", reason, logs)
	}
	// Also when the reason is that the context has ended.
	if err := tearDown(context.WithoutCancel(ctx), c.options.Dir); err != nil {
		return errors.Join(reason, err)
	}
	return errors.Join(reason, os.Remove(c.options.Dir))
}
