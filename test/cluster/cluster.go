package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Cluster is a running cluster.
type Cluster struct {
	options      Options
	artifacts    Artifacts
	secrets      secrets
	group        cgroup
	controlPlane *Machine
	nodes        []*Node
	guests       []*Guest

	clientOnce sync.Once
	client     *http.Client
	clientErr  error
}

var (
	// ErrRunning means that a cluster already runs in the run folder.
	ErrRunning = errors.New("a cluster is already running")
	// ErrNotRunning means that the run folder has no complete cluster.
	ErrNotRunning = errors.New("no cluster is running")
)

// newCluster describes a cluster without starting anything.
func newCluster(d description) *Cluster {
	c := &Cluster{
		options:   d.Options,
		artifacts: d.Artifacts,
		secrets:   secrets(filepath.Join(d.Options.Dir, "secrets")),
		group:     groupOf(d.Options.Dir),
	}
	c.controlPlane = c.newControlPlane()
	for number := 1; number <= d.Options.Nodes; number++ {
		c.nodes = append(c.nodes, c.newNode(number))
	}
	for number := range d.Options.Guests {
		c.guests = append(c.guests, &Guest{cluster: c, number: d.Options.Nodes + number + 1})
	}
	return c
}

// groupOf returns the control group of the cluster in a run folder. It follows
// from the folder alone, so that leftovers are found when all else is lost.
func groupOf(dir string) cgroup {
	return cgroup(fmt.Sprintf("/nadra-%.4x", sha256.Sum256([]byte(dir))))
}

// Open returns the cluster that runs in a run folder; the empty string means the default
// folder.
func Open(dir string) (*Cluster, error) {
	options, err := Options{Dir: dir}.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := readDescription(options.Dir)
	if err != nil {
		return nil, err
	}
	c := newCluster(d)
	for _, m := range c.machines() {
		if !m.isUp() {
			return nil, fmt.Errorf("%w in %s: machine %s has died; stop the rest with 'nadra-cluster down'",
				ErrNotRunning, options.Dir, m.name)
		}
	}
	for _, folder := range c.artifacts.folders() {
		use(folder)
	}
	return c, nil
}

// Stop ends the cluster and removes everything of it: processes, namespaces with their
// mounts and networks, control groups, the run folder.
func (c *Cluster) Stop(ctx context.Context) error { return Stop(ctx, c.options.Dir) }

// Stop ends the cluster in a run folder, complete or not. It returns no error if there is
// none.
func Stop(ctx context.Context, dir string) error {
	options, err := Options{Dir: dir}.withDefaults()
	if err != nil {
		return err
	}
	unlock, err := lockFolder(ctx, options.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := tearDown(ctx, options.Dir); err != nil {
		return fmt.Errorf("stopping the cluster in %s: %w", options.Dir, err)
	}
	started.Delete(options.Dir)
	return os.Remove(options.Dir)
}

// Dir returns the run folder.
func (c *Cluster) Dir() string { return c.options.Dir }

// ControlPlane returns the machine that is not a node.
func (c *Cluster) ControlPlane() *Machine { return c.controlPlane }

// Nodes returns all nodes in the order of their numbers.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node returns a node by its number, the first of which is 1.
func (c *Cluster) Node(number int) *Node { return c.nodes[number-1] }

func (c *Cluster) machines() []*Machine {
	all := []*Machine{c.controlPlane}
	for _, n := range c.nodes {
		all = append(all, n.Machine)
	}
	return all
}

// waitUsable waits for everything that the first pod needs besides a node.
func (c *Cluster) waitUsable(ctx context.Context) error {
	const account = "/api/v1/namespaces/default/serviceaccounts/default"
	return poll(ctx, time.Minute, "waiting for the default service account", func(ctx context.Context) (bool, error) {
		if err := c.controlPlane.checkRunning(c.controlPlane.Components()...); err != nil {
			return false, stop(err)
		}
		err := c.get(ctx, account, nil)
		return err == nil, err
	})
}
