package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	containerdModule = "github.com/containerd/containerd/v2"
	nriModule        = "github.com/containerd/nri"
)

//go:embed templates/containerd.toml
var containerdTemplate string

// containerdSettings has the settings that differ between containerd configurations.
type containerdSettings struct {
	Snapshotter string
	PauseImage  string
	Runc        string
	NRITimeout  time.Duration
}

func containerdConfig(settings containerdSettings) ([]byte, error) {
	return render("containerd.toml", containerdTemplate, settings)
}

// render fills in the template of a configuration.
func render(name, text string, settings any) ([]byte, error) {
	parsed, err := template.New(name).Parse(text)
	if err != nil {
		return nil, err
	}
	var rendered bytes.Buffer
	if err := parsed.Execute(&rendered, settings); err != nil {
		return nil, err
	}
	return rendered.Bytes(), nil
}

// containerd is the container runtime containerd.
type containerd struct{ artifacts Artifacts }

func (containerd) name() string { return Containerd }

func (containerd) socket() string { return "/run/containerd/containerd.sock" }

func (containerd) disk() map[string]string {
	return map[string]string{"/var/lib/containerd": "containerd"}
}

func (containerd) files(*Node) []bind { return nil }

func (c containerd) folders() []string { return []string{c.artifacts.Containerd} }

func (c containerd) program(n *Node) component {
	return n.program(c.artifacts.Containerd, Containerd, "--config", n.configFile("containerd.toml"))
}

func (c containerd) configure(n *Node, options Options) error {
	config, err := containerdConfig(containerdSettings{
		Snapshotter: snapshotter(n.folder),
		PauseImage:  PauseImage,
		Runc:        filepath.Join(c.artifacts.Runc, "runc"),
		NRITimeout:  options.NRITimeout,
	})
	if err != nil {
		return fmt.Errorf("rendering the configuration of containerd: %w", err)
	}
	return writeFile(n.configFile("containerd.toml"), config)
}

func (containerd) importImage(ctx context.Context, n *Node, archive string) error {
	_, err := n.Exec(ctx, "ctr", "--namespace=k8s.io", "images", "import", "--local", "--snapshotter="+snapshotter(n.folder), archive)
	return err
}

func (containerd) tagImage(ctx context.Context, n *Node, image, name string) error {
	_, err := n.Exec(ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, name)
	return err
}

func (containerd) usesPlugin(ctx context.Context, n *Node, plugin string) (uses bool, err error) {
	err = n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		status, err := runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
		uses = strings.Contains(status.GetInfo()["cniconfig"], plugin)
		return err
	})
	return uses, err
}

// endSandbox kills the sandbox's pause process.
func (c containerd) endSandbox(ctx context.Context, n *Node, id string) error {
	b := c.bundles(n)
	file, err := n.HostPath(filepath.Join(b.Dir, id, b.PID))
	if err != nil {
		return err
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("finding the pause process of sandbox %s: %w", id, err)
	}
	_, err = n.Exec(ctx, "kill", "-KILL", strings.TrimSpace(string(pid)))
	return err
}

func (containerd) removesNamespaceFirst() bool { return false }

func (containerd) reportsOlderSandboxes() bool { return false }

// bundles describes containerd's tasks: a folder exists while its container has a process, or is
// about to have one.
func (containerd) bundles(*Node) Bundles {
	const key = "io.kubernetes.cri."
	return Bundles{
		Dir: "/run/containerd/io.containerd.runtime.v2.task/k8s.io", Config: "config.json", PID: "init.pid",
		Name: key + "container-name", Namespace: key + "sandbox-namespace", Pod: key + "sandbox-name", PodUID: key + "sandbox-uid",
		Sandbox: key + "sandbox-id", Kind: key + "container-type", Pause: true,
	}
}

// containerdBuild describes containerd with the libraries of the go.mod in dir.
func containerdBuild(b *planner, dir string) goBuild {
	version := b.moduleVersion(dir, containerdModule)
	return goBuild{
		name: filepath.Base(dir), version: version, dir: dir,
		tags:     "no_btrfs no_zfs no_devmapper no_tracing no_systemd no_rdt urfave_cli_no_docs netgo osusergo",
		ldflags:  " -X " + containerdModule + "/version.Version=" + strings.TrimPrefix(version, "v"),
		packages: prefixed(containerdModule+"/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
	}
}

// BuildContainerdWithNewestNRI builds containerd with the newest release of NRI
// instead of the one that it ships, and returns its folder, for
// Options.Containerd. It is no part of a cluster, so Build does not build it.
func BuildContainerdWithNewestNRI(ctx context.Context, out io.Writer) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	b := &planner{ctx: ctx}
	r := b.add(containerdBuild(b, filepath.Join(root, "test/cluster/components/containerd-newest-nri")))
	if b.err != nil {
		return "", fmt.Errorf("planning to build containerd with the newest NRI: %w", b.err)
	}
	return r.provide(ctx, "components", out)
}
