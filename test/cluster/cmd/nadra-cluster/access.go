package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nadra-dev/nadra/test/cluster"
)

// status lists the machines with their components, and the nodes as the
// cluster sees them.
func status(ctx context.Context, args []string) error {
	flags := newArguments("status")
	if err := flags.parse(args); err != nil {
		return err
	}
	c, err := cluster.Open(*flags.dir)
	if err != nil {
		return err
	}
	fmt.Println("run folder:", c.Dir())
	print := func(m *cluster.Machine) {
		fmt.Printf("%s:", m.Name())
		for _, name := range m.Components() {
			state := "running"
			if !m.Running(name) {
				state = "NOT RUNNING"
			}
			fmt.Printf(" %s (%s)", name, state)
		}
		fmt.Println()
	}
	print(c.ControlPlane())
	for _, n := range c.Nodes() {
		print(n.Machine)
	}
	return attach(c.ControlPlane(), c.ControlPlane().Command(ctx, "kubectl", "get", "nodes", "-o", "wide"))
}

func execute(ctx context.Context, args []string) error {
	flags := newArguments("exec")
	number := flags.Int("node", 1, "number of the node")
	controlPlane := flags.Bool("control-plane", false, "run it on the machine of the control plane")
	if err := flags.parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errUsage
	}
	c, err := cluster.Open(*flags.dir)
	if err != nil {
		return err
	}
	m := c.ControlPlane()
	if !*controlPlane {
		n, err := nodeOf(c, *number)
		if err != nil {
			return err
		}
		m = n.Machine
	}
	return attach(m, m.Command(ctx, flags.Arg(0), flags.Args()[1:]...))
}

// kubectl takes -dir only as the first argument: all others are kubectl's. It runs the plugin
// nadra of the folder of this program, because kubectl sees only the PATH of the machine.
func kubectl(ctx context.Context, args []string) error {
	dir := ""
	if len(args) > 1 && args[0] == "-dir" {
		dir, args = args[1], args[2:]
	}
	c, err := cluster.Open(dir)
	if err != nil {
		return err
	}
	name := "kubectl"
	if len(args) > 0 && args[0] == "nadra" {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding kubectl-nadra: %w", err)
		}
		name, args = filepath.Join(filepath.Dir(program), "kubectl-nadra"), args[1:]
	}
	return attach(c.ControlPlane(), c.ControlPlane().Command(ctx, name, args...))
}

func load(ctx context.Context, args []string) error {
	flags := newArguments("load")
	number := flags.Int("node", 0, "number of the node (default all)")
	if err := flags.parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errUsage
	}
	c, err := cluster.Open(*flags.dir)
	if err != nil {
		return err
	}
	nodes := c.Nodes()
	if *number != 0 {
		n, err := nodeOf(c, *number)
		if err != nil {
			return err
		}
		nodes = []*cluster.Node{n}
	}
	for _, archive := range flags.Args() {
		for _, n := range nodes {
			if err := n.ImportImage(ctx, archive); err != nil {
				return err
			}
		}
	}
	return nil
}

func nodeOf(c *cluster.Cluster, number int) (*cluster.Node, error) {
	if number < 1 || number > len(c.Nodes()) {
		return nil, fmt.Errorf("there is no node %d, only 1 to %d", number, len(c.Nodes()))
	}
	return c.Node(number), nil
}

// attach runs a command with this process' input and output.
func attach(m *cluster.Machine, cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(cmd.Env, "TERM="+os.Getenv("TERM"))
	return m.Run(cmd)
}
