package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
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
	Validator   bool
	Layout      Layout
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
		Validator:   options.NRIValidator,
		Layout:      n.Layout(),
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

// containerdVariable chooses another containerd for every cluster, one of those that
// components/containerd has a file for: a minor version such as 2.3, or newest-nri. The default
// is go.mod, a release with the libraries that it ships.
const containerdVariable = "NADRA_CONTAINERD"

// containerdBuild describes the containerd of a file in components/containerd.
func (b *planner) containerdBuild(components, choice string) goBuild {
	dir, modfile := filepath.Join(components, "containerd"), modfileOf(choice)
	version := b.requiredVersion(filepath.Join(dir, modfile), containerdModule)
	return goBuild{
		name: "containerd", version: version, dir: dir, modfile: modfile,
		tags:     "no_btrfs no_zfs no_devmapper no_tracing no_systemd no_rdt urfave_cli_no_docs",
		ldflags:  " -X " + containerdModule + "/version.Version=" + strings.TrimPrefix(version, "v"),
		own:      "github.com/containerd/...",
		packages: prefixed(containerdModule+"/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
	}
}

// ended returns nothing: a shim tells containerd, also after its restart.
func (containerd) ended(context.Context, *Node) ([]string, error) { return nil, nil }
