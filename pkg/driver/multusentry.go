package driver

import (
	"context"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// defaultEntries returns the first entries of network-status, which describe a sandbox's default network. Beside Multus
// they are those that it has written before the sandbox's hook runs, if they are of this sandbox: after a new sandbox, the
// watch may still have those of the one before. Otherwise they are nadra's own.
func (n *node) defaultEntries(ctx context.Context, s attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
	own, err := n.defaultNetwork(ctx, s)
	if err != nil || !n.cfg.BesideMultus {
		return own, err
	}
	if pod := n.watch.Find(s.Pod); pod != nil {
		if entries := entriesOf(pod.Annotations, own); entries != nil {
			return entries, nil
		}
	}
	pod, err := readPod(ctx, n.clients.Metadata, s.Pod)
	if err != nil {
		return nil, fmt.Errorf("reading pod %s for Multus' entry of network-status: %w", s.Pod, err)
	}
	if entries := entriesOf(pod.Annotations, own); entries != nil {
		return entries, nil
	}
	return own, nil
}

// entriesOf returns the entries of the default network if they have the addresses of a sandbox, and
// otherwise none. Own may lack an interface, without the runtime's result.
func entriesOf(annotations map[string]string, own []*nadv1.NetworkStatus) []*nadv1.NetworkStatus {
	entries := networkstatus.DefaultEntries(annotations[nadv1.NetworkStatusAnnot])
	for _, o := range own {
		sameIPs := func(e *nadv1.NetworkStatus) bool {
			return slices.Equal(slices.Sorted(slices.Values(e.IPs)), slices.Sorted(slices.Values(o.IPs)))
		}
		if !slices.ContainsFunc(entries, sameIPs) {
			return nil
		}
	}
	return entries
}
