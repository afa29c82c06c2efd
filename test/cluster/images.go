package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// applets has the commands of the test image, which are links to busybox.
var applets = []string{
	"arping", "cat", "echo", "env", "false", "id", "ip", "ls", "mount", "nc", "ping", "sh", "sleep", "true", "wget",
}

// imagesRecipe makes the archives of the pause and the test image. The key does not contain
// the busybox, of which tests only need the applets.
func imagesRecipe(cache string, pause, mkimage *recipe) *recipe {
	r := &recipe{name: "images", salt: append([]string{pause.key, mkimage.key}, applets...)}
	r.cook = func(ctx context.Context, into string, _ *step) error {
		tool := filepath.Join(mkimage.folder(cache), "mkimage")
		program := filepath.Join(pause.folder(cache), "pause")
		if err := run(ctx, tool, "-o", filepath.Join(into, "pause.tar"), "-t", PauseImage,
			"-entrypoint", "/pause", "/pause="+program); err != nil {
			return err
		}
		busybox, err := findBusybox()
		if err != nil {
			return err
		}
		args := []string{
			"-o", filepath.Join(into, "test.tar"), "-t", TestImage, "-env", "PATH=/bin",
			"-entrypoint", "/bin/sleep,infinity", "/bin/busybox=" + busybox,
		}
		for _, applet := range applets {
			args = append(args, "/bin/"+applet+"=@busybox")
		}
		return run(ctx, tool, args...)
	}
	return r
}

// run runs a program whose output matters only when it fails.
func run(ctx context.Context, name string, args ...string) error {
	if output, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", name, err, tail(output, 40))
	}
	return nil
}
