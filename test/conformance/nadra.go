package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nadra is a running nadra-node, with the runtime's real side of NRI and the kubelet's
// client of DRA.
type nadra struct {
	process *exec.Cmd
	runtime *adaptation.Adaptation
	conn    *grpc.ClientConn
	kubelet drapb.DRAPluginClient
	ended   chan struct{}
	err     error // of the end

	// offered has the networks that were published when all networks were created.
	offered map[attachment.NetworkID]bool
	waves   int
}

const nadraLog = base + "/nadra-node.log"

func startNadra(ctx context.Context, w *world) (*nadra, error) {
	for _, dir := range []string{"plugins", "registry", "cdi"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			return nil, err
		}
	}
	n := &nadra{ended: make(chan struct{})}
	if err := n.startRuntime(); err != nil {
		return nil, fmt.Errorf("starting NRI: %w", err)
	}
	if err := n.startProcess(w); err != nil {
		return nil, errors.Join(fmt.Errorf("starting nadra-node: %w", err), n.stop())
	}
	err := eventually(ctx, time.Minute, func(context.Context) error {
		if err := n.running(); err != nil {
			return err
		}
		return n.connect()
	})
	if err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

// connect connects the kubelet's side. The driver's socket has a name of its own with each start.
func (n *nadra) connect() error {
	sockets, err := filepath.Glob(filepath.Join(base, "plugins", v1alpha1.DriverName, "dra-*.sock"))
	if err != nil || len(sockets) != 1 {
		return fmt.Errorf("looking for nadra-node's socket: %q, %w", sockets, err)
	}
	n.conn, err = grpc.NewClient("unix://"+sockets[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	n.kubelet = drapb.NewDRAPluginClient(n.conn)
	return err
}

func (n *nadra) startRuntime() (err error) {
	nrilog.Set(silent{})
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		_, err := tell(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil }
	n.runtime, err = adaptation.New("conformance", "1", sync, update, adaptation.WithSocketPath(filepath.Join(base, "nri.sock")),
		adaptation.WithPluginPath(filepath.Join(base, "none")), adaptation.WithPluginConfigPath(filepath.Join(base, "none")))
	if err != nil {
		return err
	}
	return n.runtime.Start()
}

func (n *nadra) startProcess(w *world) error {
	log, err := os.Create(nadraLog)
	if err != nil {
		return err
	}
	defer log.Close()
	n.process = exec.Command(w.programs.Nadra,
		"--node-name", nodeName, "--kubeconfig", w.kubeconf, "--host-root", "/",
		"--state-dir", stateDir, "--cni-bin-dirs", binDir,
		"--cni-conf-dir", filepath.Join(base, "net.d"), "--nad-conf-dir", filepath.Join(confDirs, "all"),
		"--nri-socket", filepath.Join(base, "nri.sock"), "--cdi-dir", filepath.Join(base, "cdi"),
		"--kubelet-plugins-dir", filepath.Join(base, "plugins"), "--kubelet-registry-dir", filepath.Join(base, "registry"),
		"--gate-binary", w.programs.Gate, "--http-address=", "-v=2")
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		return err
	}
	go func() { n.err = n.process.Wait(); close(n.ended) }()
	return nil
}

// running returns an error when nadra-node has ended.
func (n *nadra) running() error {
	select {
	case <-n.ended:
		return fmt.Errorf("nadra-node has ended: %w\n%s", n.err, n.log(20))
	default:
		return nil
	}
}

// log returns the last lines of nadra-node's log.
func (n *nadra) log(lines int) string {
	content, err := os.ReadFile(nadraLog)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		const limit = 400
		all[i] = line[:min(len(line), limit)]
	}
	return strings.Join(all, "\n")
}

func (n *nadra) stop() error {
	var err error
	if n.conn != nil {
		err = n.conn.Close()
	}
	if n.process != nil && n.process.Process != nil {
		err = errors.Join(err, n.process.Process.Signal(syscall.SIGTERM))
		select {
		case <-n.ended:
		case <-time.After(20 * time.Second):
			err = errors.Join(err, errors.New("nadra-node did not end when asked to"), n.process.Process.Kill())
		}
	}
	n.runtime.Stop()
	return errors.Join(err, n.err)
}

// silent discards the runtime's log.
type silent struct{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}
