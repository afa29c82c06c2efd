package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/conformance/compare"
)

// sandbox is the sandbox of a case's pod. It is the same for both sides.
type sandbox struct {
	pod   *corev1.Pod
	id    string
	name  string // of the network namespace
	netns string // its path
	c     Case
}

// args returns the CNI_ARGS that containerd passes, in its order.
func (s sandbox) args() [][2]string {
	return [][2]string{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", s.pod.Namespace},
		{"K8S_POD_NAME", s.pod.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", s.id},
		{"K8S_POD_UID", string(s.pod.UID)},
	}
}

// attacher is Multus or nadra.
type attacher interface {
	// start attaches the sandbox to its networks, including the default network. why is the
	// error that a user would get if the pod does not start.
	start(ctx context.Context, s sandbox) (why string, err error)
	// stop detaches them, whether or not start succeeded.
	stop(ctx context.Context, s sandbox) (why string, err error)
	// own returns the directories of the attacher's records, and IDs, besides the sandbox's
	// and the pod's, that no record may contain at the end.
	own() (dirs, ids []string)
}

// side starts and stops a sandbox and records what is compared.
func (w *world) side(ctx context.Context, s sandbox, a attacher) (side compare.Side, err error) {
	if err := w.reset(); err != nil {
		return side, fmt.Errorf("resetting the node: %w", err)
	}
	if s.netns, err = newNetNS(s.name); err != nil {
		return side, err
	}
	defer func() { err = errors.Join(err, netns.DeleteNamed(s.name), w.reset()) }()
	if side.Error, err = a.start(ctx, s); err == nil && side.Error == "" {
		err = w.recordPod(ctx, s, &side)
	}
	why, stopErr := a.stop(ctx, s)
	if err := errors.Join(err, stopErr); err != nil {
		return side, err
	}
	side.Stop = why
	if side.Left, err = w.left(s, a); err != nil {
		return side, err
	}
	side.Calls, err = callsOf(s)
	return side, err
}

// recordPod records the networks of a started pod.
func (w *world) recordPod(ctx context.Context, s sandbox, side *compare.Side) (err error) {
	if side.Added, err = observe(s.netns, observeSettings); err != nil {
		return err
	}
	side.Status, err = w.status(ctx, s.pod)
	return err
}

// callsOf returns the calls of plugins for a sandbox. It leaves out the default network,
// which on nadra's side the suite itself attaches, as the runtime.
func callsOf(s sandbox) ([]compare.Call, error) {
	file, err := os.Open(tracePath)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []compare.Call
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var call compare.Call
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			return nil, fmt.Errorf("reading the trace: %w", err)
		}
		if call.Env["CNI_CONTAINERID"] == s.id && call.Env["CNI_IFNAME"] != defaultInterface {
			out = append(out, call)
		}
	}
	return out, lines.Err()
}
