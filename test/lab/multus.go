package lab

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/cluster"
)

//go:embed testdata/multus.yaml
var multusManifest string

// multusBin is the folder of the programs in Multus' image.
const multusBin = "/usr/src/multus-cni/bin/"

// MultusArchive builds Multus, and writes the image of its DaemonSet to a file in dir.
func MultusArchive(ctx context.Context, dir string, out io.Writer) (string, error) {
	programs, err := cluster.BuildThickMultus(ctx, out)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "multus.tar")
	args := []string{"-o", archive, "-t", "localhost/multus:thick", "-env", "USER=root", "-env", "HOME=/", "/var/run=@/run"}
	for _, name := range []string{"multus-daemon", "multus-shim", "install_multus"} {
		args = append(args, multusBin+name+"="+filepath.Join(programs, name))
	}
	args = append(args, multusBin+"passthru="+filepath.Join(programs, "passthru-cni"))
	cmd := exec.CommandContext(ctx, filepath.Join(Root(), "bin", "mkimage"), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making Multus' image: %w\n%s", err, out)
	}
	return archive, nil
}

// InstallMultus installs Multus' DaemonSet on a node, or on all nodes if only is nil, and waits until their runtimes use
// Multus.
func (l *Lab) InstallMultus(ctx context.Context, only *cluster.Node) error {
	rights, err := os.ReadFile(filepath.Join(Root(), "test", "cluster", "templates", "multus.yaml"))
	if err != nil {
		return err
	}
	nodes, manifest := l.Cluster.Nodes(), multusManifest
	if only != nil {
		nodes = []*cluster.Node{only}
		manifest = strings.Replace(manifest, "      nodeSelector: {}\n", fmt.Sprintf("      nodeSelector: {%s: %s}\n", corev1.LabelHostname, only.Name()), 1)
	}
	if err := l.Apply(ctx, string(rights)+"\n---\n"+manifest); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := Eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
			uses, err := n.Runtime().Uses(ctx, "multus-shim")
			if err == nil && !uses {
				err = fmt.Errorf("the runtime of %s does not use Multus yet", n.Name())
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
