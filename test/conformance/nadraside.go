package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// nadraSide acts as the scheduler, the kubelet and the runtime of one sandbox.
type nadraSide struct {
	w      *world
	claims []*resourceapi.ResourceClaim
}

func (n *nadraSide) start(ctx context.Context, s sandbox) (string, error) {
	if err := n.w.offered(ctx, s.c); err != nil {
		return "", err
	}
	why, err := n.prepare(ctx, s)
	if err != nil || why != "" {
		return why, err
	}
	if err := n.w.network.add(ctx, s); err != nil {
		return err.Error(), nil //nolint:nilerr // the runtime's error is the pod's
	}
	if err := n.runPodSandbox(ctx, s); err != nil {
		return err.Error(), nil //nolint:nilerr // so is the hook's
	}
	if len(n.claims) == 0 {
		return "", nil
	}
	for _, claim := range n.claims {
		if why, err := n.w.attached(ctx, claim); err != nil || why != "" {
			return why, err
		}
	}
	return "", n.shown(ctx, s)
}

// shown waits for the pod's network-status. While the driver attaches, it may show the networks that it
// has attached already, so an annotation with few networks counts only after a while.
func (n *nadraSide) shown(ctx context.Context, s sandbox) error {
	selections, err := attachment.ParseSelections(s.c.Annotations[attachment.NetworksAnnotation], s.pod.Namespace)
	if err != nil {
		return err
	}
	began := time.Now()
	return eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		status, err := n.w.status(ctx, s.pod)
		if err != nil {
			return err
		}
		if shown := strings.Count(status, `"name"`); shown == 0 || shown <= len(selections) && time.Since(began) < 5*time.Second {
			return fmt.Errorf("network-status has %d networks", shown)
		}
		return nil
	})
}

// prepare creates the pod's claims and calls Prepare, which come before the sandbox. A pod
// without networks has no claim.
func (n *nadraSide) prepare(ctx context.Context, s sandbox) (why string, err error) {
	selections, err := attachment.ParseSelections(s.c.Annotations[attachment.NetworksAnnotation], s.pod.Namespace)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // the annotation's error is the pod's
	}
	if len(selections) == 0 {
		return "", nil
	}
	if n.claims, err = n.w.claims(ctx, s, selections); err != nil {
		if errors.As(err, new(refusal)) {
			return err.Error(), nil
		}
		return "", err
	}
	answer, err := n.w.nadra.kubelet.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: n.wire()}, grpc.WaitForReady(true))
	if err != nil {
		return "", err
	}
	for _, claim := range n.claims {
		if why := answer.Claims[string(claim.UID)].GetError(); why != "" {
			return why, nil
		}
	}
	return "", nil
}

// wire returns the claims as the kubelet names them.
func (n *nadraSide) wire() []*drapb.Claim {
	var out []*drapb.Claim
	for _, c := range n.claims {
		out = append(out, &drapb.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)})
	}
	return out
}

// runPodSandbox calls the NRI plugins as a runtime does, while no plugin is being
// synchronised.
func (n *nadraSide) runPodSandbox(ctx context.Context, s sandbox) error {
	block := n.w.nadra.runtime.BlockPluginSync()
	defer block.Unblock()
	return n.w.nadra.runtime.RunPodSandbox(ctx, &nri.RunPodSandboxRequest{Pod: nriPod(s)})
}

func nriPod(s sandbox) *nri.PodSandbox {
	return &nri.PodSandbox{
		Id: s.id, Name: s.pod.Name, Namespace: s.pod.Namespace, Uid: string(s.pod.UID), Pid: 1,
		Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: s.netns}}},
	}
}

// unprepareLimit is how long Unprepare is tried again.
const unprepareLimit = 20 * time.Second

// stop detaches in containerd's order: NRI, the default network, NRI. Then it calls
// Unprepare, as the kubelet does: again while DELs run that the hook has not waited for. The last answer counts.
func (n *nadraSide) stop(ctx context.Context, s sandbox) (string, error) {
	runtime := n.w.nadra.runtime
	err := runtime.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: nriPod(s)})
	err = errors.Join(err, n.w.network.del(ctx, s))
	err = errors.Join(err, runtime.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: nriPod(s)}))
	if len(n.claims) == 0 {
		return text(err), nil
	}
	var unprepare error
	running := lab.Eventually(ctx, unprepareLimit, func(ctx context.Context) error {
		var answer *drapb.NodeUnprepareResourcesResponse
		answer, unprepare = n.w.nadra.kubelet.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: n.wire()})
		for _, claim := range n.claims {
			if e := answer.GetClaims()[string(claim.UID)].GetError(); e != "" {
				unprepare = errors.Join(unprepare, errors.New(e))
			}
		}
		if strings.Contains(text(unprepare), "still runs") {
			return unprepare
		}
		return nil
	})
	return text(errors.Join(err, cmp.Or(running, unprepare))), nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (n *nadraSide) own() (dirs, ids []string) {
	for _, claim := range n.claims {
		ids = append(ids, string(claim.UID))
	}
	return []string{
		filepath.Join(stateDir, "claims"), filepath.Join(stateDir, "pending-dels"), filepath.Join(stateDir, "cni"), filepath.Join(base, "cdi"),
	}, ids
}
