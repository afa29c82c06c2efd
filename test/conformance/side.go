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

// sandbox is what a case's pod runs in. It is the same for both sides.
type sandbox struct {
	pod   *corev1.Pod
	id    string
	name  string // of the network namespace
	netns string // its path
	c     Case
}

// args are the CNI_ARGS that containerd gives, in its order.
func (s sandbox) args() [][2]string {
	return [][2]string{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", s.pod.Namespace},
		{"K8S_POD_NAME", s.pod.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", s.id},
		{"K8S_POD_UID", string(s.pod.UID)},
	}
}

// attacher is one of the two that are compared.
type attacher interface {
	// start gives the sandbox its networks, the default one included. why is
	// what a user would be told where the pod does not start.
	start(ctx context.Context, s sandbox) (why string, err error)
	// stop takes them away, whether or not start succeeded.
	stop(ctx context.Context, s sandbox) (why string, err error)
	// own are the directories of its records, which at the end are to have none
	// that names the sandbox, its pod or its claim: those of ids.
	own() (dirs, ids []string)
}

// side leads a sandbox through its life and notes what is compared.
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

// look notes what a pod that was started has.
func (w *world) recordPod(ctx context.Context, s sandbox, side *compare.Side) (err error) {
	if side.Added, err = observe(s.netns, observeSettings); err != nil {
		return err
	}
	side.Status, err = w.status(ctx, s.pod)
	return err
}

// callsOf reads which plugins were called for a sandbox, without those of the
// default network: on nadra's side that is the runtime's work, which is this
// suite.
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
