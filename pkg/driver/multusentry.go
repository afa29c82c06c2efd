package driver

import (
	"context"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/client-go/metadata"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// multusEntries describes the default network beside Multus, which has written the first entry of
// network-status before the sandbox's hook runs.
type multusEntries struct {
	// own describes the default network by the namespace.
	own      func(context.Context, attachment.Sandbox) (*nadv1.NetworkStatus, error)
	watch    *podWatch
	metadata metadata.Interface
}

// of returns Multus' entry, if it is that of this sandbox: after a new sandbox, the watch may still
// have that of the one before. Without one it describes the network by the namespace, as nadra
// does where Multus is not.
func (m *multusEntries) of(ctx context.Context, s attachment.Sandbox) (*nadv1.NetworkStatus, error) {
	own, err := m.own(ctx, s)
	if err != nil {
		return nil, err
	}
	if pod := m.watch.Find(s.Pod); pod != nil {
		if entry := entryOf(pod.Annotations, own); entry != nil {
			return entry, nil
		}
	}
	pod, err := readPod(ctx, m.metadata, s.Pod)
	if err != nil {
		return nil, fmt.Errorf("reading pod %s for Multus' entry of network-status: %w", s.Pod, err)
	}
	if entry := entryOf(pod.Annotations, own); entry != nil {
		return entry, nil
	}
	return own, nil
}

// entryOf returns the entry of the default network that has the addresses of a sandbox, or nil.
func entryOf(annotations map[string]string, own *nadv1.NetworkStatus) *nadv1.NetworkStatus {
	entry := networkstatus.DefaultEntry(annotations[nadv1.NetworkStatusAnnot])
	if entry == nil || !slices.Equal(slices.Sorted(slices.Values(entry.IPs)), slices.Sorted(slices.Values(own.IPs))) {
		return nil
	}
	return entry
}
