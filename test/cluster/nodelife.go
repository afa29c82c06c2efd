package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// bootUp boots the machine, connects it and starts its container runtime.
func (n *Node) bootUp(ctx context.Context) error {
	if err := n.writeBootFiles(); err != nil {
		return fmt.Errorf("preparing %s: %w", n.name, err)
	}
	if err := n.boot(ctx); err != nil {
		return err
	}
	if err := n.connect(n.cluster.controlPlane, n.cluster.options.Nodes+n.cluster.options.Guests); err != nil {
		return err
	}
	if hook := n.cluster.options.OnBoot; hook != nil {
		if err := hook(ctx, n); err != nil {
			return err
		}
	}
	return n.StartComponent(ctx, n.Runtime().Name())
}

// Reboot cuts the node's power and boots it: no process or namespace survives, the boot ID
// is a new one, and the disk stays. Reboot returns when the node is ready again.
func (n *Node) Reboot(ctx context.Context) error { return LosePower(ctx, n, func() {}) }

// LosePower does the same as Reboot, and calls while before the node boots.
func LosePower(ctx context.Context, n *Node, while func()) error {
	if err := n.powerOff(ctx); err != nil {
		return fmt.Errorf("rebooting %s: %w", n.name, err)
	}
	while()
	if err := n.bootUp(ctx); err != nil {
		return fmt.Errorf("rebooting %s: %w", n.name, err)
	}
	if err := n.StartComponent(ctx, Kubelet); err != nil {
		return fmt.Errorf("rebooting %s: %w", n.name, err)
	}
	return n.waitReady(ctx)
}

// ImportImage imports the image in an archive on the node. It replaces an image of the same
// name.
func (n *Node) ImportImage(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	if err := n.artifacts.runtime().importImage(ctx, n, archive); err != nil {
		return fmt.Errorf("importing image %s: %w", archive, err)
	}
	return nil
}

// BootID returns the ID of the node's present boot.
func (n *Node) BootID() (string, error) {
	content, err := os.ReadFile(n.sysctlFile(bootIDPath))
	if err != nil {
		return "", fmt.Errorf("reading the boot ID of %s: %w", n.name, err)
	}
	return string(content[:max(0, len(content)-1)]), nil
}

// waitReady waits until pods can run on the node in this boot.
func (n *Node) waitReady(ctx context.Context) error {
	bootID, err := n.BootID()
	if err != nil {
		return err
	}
	unready := poll(ctx, startLimit, "waiting for "+n.name+" to be ready", func(ctx context.Context) (bool, error) {
		if err := n.checkRunning(n.Components()...); err != nil {
			return false, stop(err)
		}
		var status nodeStatus
		if err := n.cluster.get(ctx, "/api/v1/nodes/"+n.name, &status); err != nil {
			return false, err
		}
		return status.usable(bootID)
	})
	if unready == nil || ctx.Err() != nil {
		return unready
	}
	return fmt.Errorf("%w%s", unready, whyUnready(ctx, n))
}

// whyUnready describes a node that does not become ready: the ends of its components' logs, and
// where the kubelet hangs before it registers the node. It ends the kubelet.
func whyUnready(ctx context.Context, n *Node) string {
	var out strings.Builder
	for _, component := range n.Components() {
		fmt.Fprintf(&out, "\nthe last lines of the log of %s are\n%s", component, n.logTail(component))
	}
	if err := n.Kill(ctx, Kubelet, unix.SIGQUIT); err != nil {
		return out.String()
	}
	_ = poll(ctx, stopLimit, "waiting for the end of the kubelet", func(context.Context) (bool, error) { return !n.Running(Kubelet), nil })
	if log, err := n.Log(Kubelet); err == nil {
		fmt.Fprintf(&out, "\nthe kubelet is in\n%s", stackWith(string(log), "(*Kubelet).updateRuntimeUp(", "(*Kubelet).syncNodeStatus("))
	}
	return out.String()
}

// stackWith returns the innermost functions of the first goroutine, in what a Go program has
// printed after SIGQUIT, that is in one of the given functions.
func stackWith(log string, functions ...string) string {
	const innermost = 12
	for goroutine := range strings.SplitSeq(log, "\n\n") {
		if !slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(goroutine, f) }) {
			continue
		}
		lines := slices.DeleteFunc(strings.Split(goroutine, "\n"), func(line string) bool { return strings.HasPrefix(line, "\t") })
		return strings.Join(lines[:min(len(lines), innermost)], "\n")
	}
	return "none of " + strings.Join(functions, ", ")
}
