package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// imageStore is the configuration of a containerd that only unpacks images.
const imageStore = `version = 3
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri"]

[grpc]
  address = "%[1]s/containerd.sock"

[plugins.'io.containerd.internal.v1.opt']
  path = "%[1]s/opt"
`

// unpackImages fills the folder of the guest's containerd, because the emulated processors
// would need a quarter of a minute. The same containerd does it in the control plane's
// machine, on the only file system that always supports overlays.
func unpackImages(ctx context.Context, c *cluster.Cluster, archives []string, into string) (err error) {
	const inside = "/run/guest-images"
	host := c.ControlPlane()
	outside, err := host.HostPath(inside)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(outside, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(outside)
	config := filepath.Join(outside, "config.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, imageStore, inside), 0o644); err != nil {
		return err
	}
	stop := startImageStore(ctx, host, filepath.Join(inside, "config.toml"))
	err = importImages(ctx, host, filepath.Join(inside, "containerd.sock"), archives)
	if printed := stop(); err != nil {
		return fmt.Errorf("%w\nthe output of containerd:\n%s", err, lastLines(printed, 10))
	}
	return os.CopyFS(into, os.DirFS(filepath.Join(outside, "root")))
}

// startImageStore starts the containerd. stop ends it and returns its output.
func startImageStore(ctx context.Context, host *cluster.Machine, config string) (stop func() string) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := host.Command(ctx, "containerd", "--config", config)
	// SIGTERM, so that containerd writes all its files.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var printed tailWriter
	cmd.Stdout, cmd.Stderr = &printed, &printed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = host.Run(cmd) // it was ended on purpose
	}()
	return func() string {
		cancel()
		<-ended
		return printed.String()
	}
}

func importImages(ctx context.Context, host *cluster.Machine, socket string, archives []string) error {
	ctr := func(ctx context.Context, args ...string) error {
		_, err := host.Exec(ctx, "ctr", append([]string{"--address=" + socket, "--namespace=k8s.io"}, args...)...)
		return err
	}
	err := lab.Eventually(ctx, time.Minute, func(ctx context.Context) error { return ctr(ctx, "version") })
	if err != nil {
		return fmt.Errorf("waiting for containerd: %w", err)
	}
	for _, archive := range archives {
		if err := ctr(ctx, "images", "import", "--local", "--snapshotter=overlayfs", archive); err != nil {
			return fmt.Errorf("importing image %s: %w", archive, err)
		}
	}
	return nil
}
