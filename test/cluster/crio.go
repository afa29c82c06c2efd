package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const crioModule = "github.com/cri-o/cri-o"

// crioBuild describes CRI-O, with crio-images and pinns in the same folder.
func crioBuild(b *planner, dir string) *recipe {
	version := b.moduleVersion(dir, crioModule)
	g := goBuild{
		name: "crio", version: version, dir: dir, cgo: true, own: "github.com/cri-o/...",
		tags: "containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs btrfs_noversion seccomp netgo osusergo",
		// -Wl,--no-warnings: seccomp and sqlite call functions that static programs should not.
		ldflags:  ` -linkmode external -extldflags "-static -Wl,--no-warnings"`,
		sources:  []string{"crio-images/*.go"},
		packages: []string{crioModule + "/cmd/crio", "./crio-images"},
	}
	r, err := g.recipe(b.ctx)
	if err != nil && b.err == nil {
		b.err = err
	}
	r.salt = append(r.salt, pinnsFlags...)
	r.cook = func(ctx context.Context, into string, s *step) error {
		if err := g.run(ctx, into, s); err != nil {
			return err
		}
		return compilePinns(ctx, g, into)
	}
	return b.addRecipe(r)
}

var pinnsFlags = []string{"-std=c99", "-Os", "-static", "-s"}

// compilePinns compiles CRI-O's helper for namespaces, a C program in its module.
func compilePinns(ctx context.Context, g goBuild, into string) error {
	source, err := g.command(ctx, "list", "-m", "-f", "{{.Dir}}", crioModule).Output()
	if err != nil {
		return fmt.Errorf("looking for the source of pinns: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(source)), "pinns/src")
	files, err := filepath.Glob(filepath.Join(folder, "*.c"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no source of pinns", folder)
	}
	return run(ctx, "gcc", append(append(pinnsFlags, "-o", filepath.Join(into, "pinns")), files...)...)
}

//go:embed templates/crio.toml
var crioTemplate string

// crioSettings has the settings that differ between CRI-O configurations.
type crioSettings struct {
	Driver     string
	PauseImage string
	Runc       string
	Pinns      string
	Conmon     string
	Policy     string
	NRITimeout time.Duration
	Validator  bool
	Layout     Layout
}

// crio is the container runtime CRI-O.
type crio struct{ artifacts Artifacts }

// The folders in which CRI-O keeps images and containers.
const (
	crioRoot    = "/var/lib/containers/storage"
	crioRunRoot = "/run/containers/storage"
)

// crioLock returns the folder that a cluster with CRI-O locks, so that there is one such cluster at a time. A starting kubelet
// asks CRI-O for each container of CRI-O in the computer's control groups, also for those of other
// clusters, and waits 3.1 seconds for each that CRI-O does not know (cAdvisor 0.60, container/crio/handler.go).
func crioLock() string { return filepath.Join(os.TempDir(), "nadra-crio") }

func (crio) name() string { return CRIO }

func (crio) socket() string { return "/run/crio/crio.sock" }

func (c crio) folders() []string { return []string{c.artifacts.CRIO} }

func (crio) disk() map[string]string { return map[string]string{"/var/lib/containers": "containers"} }

// controllers lists the kernel's controllers of control groups.
const controllers = "/proc/cgroups"

// files returns a list of controllers without the ones that are not mounted: CRI-O sets
// limits for all that are listed, and has no setting as containerd's
// disable_hugetlb_controller.
func (crio) files(n *Node) []bind {
	return []bind{{Source: n.sysctlFile(controllers), Target: controllers}}
}

// program starts CRI-O with an empty --config-dir, because /etc/crio is the real machine's.
func (c crio) program(n *Node) component {
	return n.program(c.artifacts.CRIO, CRIO, "--config", n.configFile("crio.toml"), "--config-dir", "")
}

// ociRuntime runs runc after it has replaced negative OOM scores in the container's
// configuration, and removed CAP_SYS_RESOURCE from it: without that capability, which build
// machines lack, nobody may lower the score, and privileged containers do not start. CRI-O
// gives these all capabilities that it knows, and containerd those that it has itself. CRI-O
// has no setting as containerd's restrict_oom_score_adj.
const ociRuntime = `#!/bin/sh
for a in "$@"; do
	case "$before" in
	--bundle|-b) file="$a/config.json" ;;
	--process|-p) file="$a" ;;
	esac
	before="$a"
done
[ ! -f "$file" ] || sed -i -e 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' -e 's/"CAP_SYS_RESOURCE", *//g' "$file"
exec %s "$@"
`

func (c crio) configure(n *Node, options Options) error {
	conmon, err := exec.LookPath("conmon")
	if err != nil {
		return err
	}
	settings := crioSettings{
		Driver: storageDriver(n), PauseImage: PauseImage, Runc: n.configFile("oci-runtime"), Pinns: filepath.Join(c.artifacts.CRIO, "pinns"),
		Conmon: conmon, Policy: n.configFile("policy.json"), NRITimeout: options.NRITimeout, Validator: options.NRIValidator,
		Layout: n.Layout(),
	}
	config, err := render("crio.toml", crioTemplate, settings)
	if err != nil {
		return fmt.Errorf("rendering the configuration of CRI-O: %w", err)
	}
	mounted, err := mountedControllers()
	if err != nil {
		return fmt.Errorf("listing the mounted control groups: %w", err)
	}
	for path, content := range map[string][]byte{
		n.configFile("crio.toml"): config,
		settings.Policy:           []byte(`{"default": [{"type": "insecureAcceptAnything"}]}` + "\n"),
		settings.Runc:             fmt.Appendf(nil, ociRuntime, filepath.Join(c.artifacts.Runc, "runc")),
		n.sysctlFile(controllers): mounted,
	} {
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	return os.Chmod(settings.Runc, 0o755)
}

// mountedControllers returns the list of controllers without those of cgroup v1 that have no
// hierarchy, because nobody has mounted them.
func mountedControllers() ([]byte, error) {
	content, err := os.ReadFile(controllers)
	if err != nil {
		return nil, err
	}
	return withoutUnmounted(content), nil
}

// withoutUnmounted drops huge pages without a hierarchy: CRI-O looks for no others.
func withoutUnmounted(list []byte) []byte {
	var out []byte
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "hugetlb" && fields[1] == "0" {
			continue
		}
		out = append(out, line...)
	}
	return out
}

// storageDriver returns the driver that works on the node's disk.
func storageDriver(n *Node) string {
	if snapshotter(n.folder) == "native" {
		return "vfs"
	}
	return "overlay"
}

// images runs crio-images.
func (crio) images(ctx context.Context, n *Node, args ...string) error {
	_, err := n.Exec(ctx, "crio-images", append([]string{storageDriver(n), crioRoot, crioRunRoot}, args...)...)
	return err
}

func (c crio) importImage(ctx context.Context, n *Node, archive string) error {
	return c.images(ctx, n, "import", archive)
}

func (c crio) tagImage(ctx context.Context, n *Node, image, name string) error {
	return c.images(ctx, n, "tag", image, name)
}

// defaultNetworkRead is CRI-O's message after it has read the CNI configurations.
var defaultNetworkRead = regexp.MustCompile(`Updated default CNI network name to ([^" ]+)`)

// usesPlugin looks in CRI-O's log for the network that it uses, and for the plugin in that
// network's configuration: CRI does not report it.
func (crio) usesPlugin(_ context.Context, n *Node, plugin string) (bool, error) {
	log, err := n.Log(CRIO)
	if err != nil {
		return false, err
	}
	read := defaultNetworkRead.FindAllSubmatch(log, -1)
	if len(read) == 0 {
		return false, nil
	}
	folder, err := n.HostPath(n.Layout().CNIConfig)
	if err != nil {
		return false, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.conf*"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		var network struct{ Name string }
		if json.Unmarshal(content, &network) == nil && network.Name == string(read[len(read)-1][1]) {
			return strings.Contains(string(content), plugin), nil
		}
	}
	return false, nil
}

// endSandbox stops the sandbox by CRI-O: it has no process that could be killed. CRI-O lists a
// sandbox before it is created, and then refuses to stop it. A container that is being started
// meanwhile has two minutes to stop. As the kubelet does, it tries again what the default network's plugins refuse.
func (crio) endSandbox(ctx context.Context, n *Node, id string) error {
	return n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		return poll(ctx, 2*startLimit, "waiting until sandbox "+id+" can be stopped", func(ctx context.Context) (bool, error) {
			_, err := runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			if err != nil && !strings.Contains(err.Error(), "sandbox is not created") && !strings.Contains(err.Error(), "network teardown failed") {
				err = stop(err)
			}
			return err == nil, err
		})
	})
}

// removesNamespaceFirst returns true until CRI-O has its pull request 9943.
func (crio) removesNamespaceFirst() bool { return true }

func (crio) reportsOlderSandboxes() bool { return true }

// bundles describes CRI-O's containers: a folder exists until the kubelet has the container
// removed.
func (crio) bundles(n *Node) Bundles {
	const key = "io.kubernetes."
	return Bundles{
		Dir: crioRunRoot + "/" + storageDriver(n) + "-containers", Config: "userdata/config.json", PID: "userdata/pidfile",
		Name: key + "container.name", Namespace: key + "pod.namespace", Pod: key + "pod.name", PodUID: key + "pod.uid",
		Sandbox: key + "cri-o.SandboxID", Kind: key + "cri-o.ContainerType",
	}
}

// ended returns the containers whose monitor wrote the file of their exit 20 s ago or before. CRI-O watches for
// these files, and misses one that is written after it has read its containers and before it watches (1.36).
func (crio) ended(ctx context.Context, n *Node) ([]string, error) {
	out, err := n.Exec(ctx, "find", "/run/crio/exits", "-type", "f", "-not", "-newermt", "-20 seconds", "-printf", "%f\n")
	return strings.Fields(string(out)), err
}
