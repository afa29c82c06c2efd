//go:build e2e

package beside

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// found is what is wrong with a pod's networks.
type found struct{ twice, missing []string }

func (f *found) addTwice(format string, args ...any) {
	f.twice = append(f.twice, fmt.Sprintf(format, args...))
}

func (f *found) addMissing(format string, args ...any) {
	f.missing = append(f.missing, fmt.Sprintf(format, args...))
}

// wanted returns the networks of a pod of a workload.
func wanted(p *corev1.Pod) []string {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == p.Labels["app"] })
	return kinds[i].networks
}

// inspect compares what a running pod has with what it must have: in its namespace, in
// network-status, and in the records of the program that serves it. It returns the addresses of its
// networks.
func (f *fixture) inspect(ctx context.Context, h half, p *corev1.Pod) (out found, addresses []string, err error) {
	sandbox, err := f.node.PodSandbox(ctx, string(p.UID))
	if err != nil {
		return out, nil, err
	}
	links, err := f.linksOf(sandbox.NetNS)
	if err != nil {
		return out, nil, err
	}
	want := wanted(p)
	if len(want) == 0 && !f.ofMultus {
		return out, nil, nil // Multus, which alone writes the status of such a pod, is removed
	}
	var status []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(p.Annotations[nadv1.NetworkStatusAnnot]), &status); err != nil {
		out.addMissing("network-status is %q: %v", p.Annotations[nadv1.NetworkStatusAnnot], err)
		return out, nil, nil
	}
	addresses = compareLinks(&out, links, want)
	compareStatus(&out, status, links, h, want)
	compareOwner(&out, h, p, want)
	delegates, err := f.delegates(sandbox.ID)
	if err != nil {
		return out, nil, err
	}
	// Without Multus, which a test removes, there is no file.
	if extra := delegates - 1; h.owner == api.OwnerNadra && extra > 0 {
		out.addTwice("Multus has attached %d networks, too", extra)
	}
	return out, addresses, nil
}

// linksOf returns the IPv4 addresses of the interfaces in a network namespace, by name.
func (f *fixture) linksOf(netns string) (map[string][]string, error) {
	out := map[string][]string{}
	err := f.node.DoInNetNS(netns, func() error {
		all, err := net.Interfaces()
		for _, i := range all {
			addrs, err := i.Addrs()
			if err != nil {
				return err
			}
			out[i.Name] = nil
			for _, a := range addrs {
				if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.To4() != nil {
					out[i.Name] = append(out[i.Name], ip.String())
				}
			}
		}
		return err
	})
	delete(out, "lo")
	return out, err
}

// compareLinks compares the interfaces, and returns the addresses of those of networks.
func compareLinks(out *found, links map[string][]string, want []string) (addresses []string) {
	if len(links["eth0"]) != 1 {
		out.addMissing("eth0 has the addresses %v", links["eth0"])
	}
	for _, w := range want {
		_, name, _ := strings.Cut(w, "@")
		switch at, there := links[name]; {
		case !there || len(at) == 0:
			out.addMissing("interface %s of %s: there: %t, addresses %v", name, w, there, at)
		case len(at) > 1:
			out.addTwice("interface %s has the addresses %v", name, at)
		}
		addresses = append(addresses, links[name]...)
	}
	if len(links) > len(want)+1 {
		out.addTwice("interfaces %v, want eth0 and %v", links, want)
	}
	return addresses
}

// compareStatus checks that network-status has Multus' entry of the default network, and then each
// network once, in order, with the addresses that it has.
func compareStatus(out *found, status []nadv1.NetworkStatus, links map[string][]string, h half, want []string) {
	if len(status) == 0 || !status[0].Default || status[0].Interface != "eth0" || !slices.Equal(status[0].IPs, links["eth0"]) {
		out.addMissing("network-status does not begin with the default network: %+v", status)
		return
	}
	var listed []string
	for _, s := range status[1:] {
		listed = append(listed, strings.TrimPrefix(s.Name, h.namespace+"/")+"@"+s.Interface)
		if !slices.Equal(s.IPs, links[s.Interface]) {
			out.addMissing("network-status has addresses %v of %s, which has %v", s.IPs, s.Interface, links[s.Interface])
		}
	}
	switch {
	case len(listed) > len(want):
		out.addTwice("network-status lists %v, want %v", listed, want)
	case !slices.Equal(listed, want):
		out.addMissing("network-status lists %v, want %v", listed, want)
	}
}

// compareOwner checks that the pod is of the half that its namespace says.
func compareOwner(out *found, h half, p *corev1.Pod, want []string) {
	key, claims := attachment.NetworksAnnotation, 0
	if h.owner == api.OwnerNadra && len(want) > 0 {
		key, claims = attachment.OwnNetworksAnnotation, 1
	}
	if got := attachment.NetworksKey(p.Annotations); len(want) > 0 && got != key || len(p.Spec.ResourceClaims) != claims {
		out.addMissing("a pod of %s names its networks in %s and has %d claims", h.owner, got, len(p.Spec.ResourceClaims))
	}
}

// delegates returns how many networks Multus has attached to a sandbox, the default one included.
func (f *fixture) delegates(sandbox string) (int, error) {
	path, err := f.node.HostPath(multusMemory + "/" + sandbox)
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(content, &list); err != nil {
		return 0, fmt.Errorf("reading Multus' file of sandbox %s: %w", sandbox, err)
	}
	return len(list), nil
}

// isLive reports whether a pod that was Ready still is.
func (f *fixture) isLive(ctx context.Context, p *corev1.Pod) bool {
	now, err := f.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, getOptions)
	return err == nil && now.UID == p.UID && lab.IsReady(now)
}
