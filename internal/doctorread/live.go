// Package doctorread reads from a cluster what package doctor judges. It gets and
// lists; only a Probe creates something, a pod, and deletes it again.
package doctorread

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Cluster is what to read.
type Cluster struct {
	Kube    kubernetes.Interface
	NADs    nadclient.Interface
	Dynamic dynamic.Interface
	// Raw gets what the API server has at a path.
	Raw func(ctx context.Context, path string) ([]byte, error)
	// Name is the context's, for people.
	Name string
	// Nodes are the names of those to read; empty means all.
	Nodes []string
	// Progress is told what is read now.
	Progress func(string)
}

// reader reads one cluster.
type reader struct {
	Cluster
	caps doctor.Capabilities
	// groups are the names of the API groups that are served.
	groups []string
}

// Read reads the cluster. What the user may not read is a gap of what comes
// back; the error is that there is no cluster to talk to.
func (c Cluster) Read(ctx context.Context) (doctor.Capabilities, error) {
	r := reader{Cluster: c, caps: doctor.Capabilities{
		APIVersion: doctor.APIVersion, Kind: doctor.CapabilitiesKind, Source: "cluster " + c.Name,
		Nodes: []doctor.Node{}, Networks: []doctor.Network{},
	}}
	v, err := c.Kube.Discovery().ServerVersionWithContext(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return r.caps, fmt.Errorf("asking the cluster for its version: %w", err)
	}
	if !r.failed(doctor.PartVersion, "", err, "the right to get /version") {
		r.caps.Server.Version = v.GitVersion
	}
	for _, step := range []struct {
		what string
		read func(context.Context)
	}{
		{"API groups", r.readGroups},
		{"feature gates", r.readGates},
		{"nodes", r.readNodes},
		{"networks", r.readNetworks},
		{"DaemonSets", r.readDaemonSets},
		{"Deployments", r.readComponents},
		{"pods", r.readStaticPods},
		{"network policies", r.readPolicies},
		{"whereabouts", r.readWhereabouts},
	} {
		if c.Progress != nil {
			c.Progress(step.what)
		}
		if step.read(ctx); ctx.Err() != nil {
			return r.caps, fmt.Errorf("reading the cluster: %w", ctx.Err())
		}
	}
	return r.caps, r.missesNodes()
}

// missesNodes reports names that no node has, where the nodes could be read.
func (r *reader) missesNodes() error {
	if slices.ContainsFunc(r.caps.Gaps, func(g doctor.Gap) bool { return g.Part == doctor.PartNodes }) {
		return nil
	}
	for _, name := range r.Nodes {
		if !slices.ContainsFunc(r.caps.Nodes, func(n doctor.Node) bool { return n.Name == name }) {
			return fmt.Errorf("reading node %q: the cluster has none of that name", name)
		}
	}
	return nil
}

// failed notes what could not be read, and reports whether there was an error.
func (r *reader) failed(part, node string, err error, remedy string) bool {
	if err == nil {
		return false
	}
	r.caps.Gaps = append(r.caps.Gaps, doctor.Gap{Part: part, Node: node, Reason: reasonOf(err), Remedy: remedy})
	return true
}

// reasonOf is an error in a few words. A proxied kubelet answers with pages.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return "not allowed to read it"
	case errors.As(err, &status) && status.Status().Code == http.StatusNotFound:
		return "not found"
	}
	return firstLine(err)
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// readGroups reads which API groups there are, and what DRA's has.
func (r *reader) readGroups(ctx context.Context) {
	groups, err := r.Kube.Discovery().ServerGroupsWithContext(ctx)
	if r.failed(doctor.PartGroups, "", err, "the right to get /apis") {
		return
	}
	for _, g := range groups.Groups {
		r.groups = append(r.groups, g.Name)
		if g.Name != "resource.k8s.io" {
			continue
		}
		for _, v := range g.Versions {
			r.caps.Server.ResourceVersions = append(r.caps.Server.ResourceVersions, v.Version)
		}
	}
	if !slices.Contains(r.caps.Server.ResourceVersions, "v1") {
		return
	}
	resources, err := r.Kube.Discovery().ServerResourcesForGroupVersionWithContext(ctx, "resource.k8s.io/v1")
	if r.failed(doctor.PartGroups, "", err, "the right to get /apis/resource.k8s.io/v1") {
		return
	}
	for _, one := range resources.APIResources {
		if !strings.Contains(one.Name, "/") {
			r.caps.Server.Resources = append(r.caps.Server.Resources, one.Name)
		}
	}
	slices.Sort(r.caps.Server.Resources)
}

// readGates reads the API server's feature gates from its metrics, which are
// the only place that tells them.
func (r *reader) readGates(ctx context.Context) {
	text, err := r.Raw(ctx, "/metrics")
	if !r.failed(doctor.PartGates, "", err, "the right to get the non-resource URL /metrics") {
		r.caps.Server.Gates = gatesOf(string(text))
	}
}

// gatesOf reads lines such as
//
//	kubernetes_feature_enabled{name="DRAPrioritizedList",stage="BETA"} 1
func gatesOf(metrics string) map[string]bool {
	gates := map[string]bool{}
	for line := range strings.Lines(metrics) {
		rest, found := strings.CutPrefix(line, `kubernetes_feature_enabled{name="`)
		if !found {
			continue
		}
		name, rest, _ := strings.Cut(rest, `"`)
		if strings.HasPrefix(name, "DRA") || strings.HasPrefix(name, "DynamicResource") {
			gates[name] = strings.HasSuffix(strings.TrimSpace(rest), "} 1")
		}
	}
	return gates
}

func (r *reader) readNetworks(ctx context.Context) {
	client := r.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("")
	err := kube.EachItem(ctx, metav1.ListOptions{}, kube.PagesOf(client.List),
		func(nad *nadv1.NetworkAttachmentDefinition) {
			r.caps.Networks = append(r.caps.Networks, networkOf(nad))
		})
	if apierrors.IsNotFound(err) {
		return // no CustomResourceDefinition, and so no networks
	}
	r.failed(doctor.PartNetworks, "", err, "the right to list network-attachment-definitions.k8s.cni.cncf.io")
	slices.SortFunc(r.caps.Networks, func(a, b doctor.Network) int { return strings.Compare(a.String(), b.String()) })
}

// networkOf is what checks need to know of a network.
func networkOf(nad *nadv1.NetworkAttachmentDefinition) doctor.Network {
	out := doctor.Network{Namespace: nad.Namespace, Name: nad.Name, Pool: attachment.PoolOf(nad.Annotations)}
	parsed, err := attachment.ParseNetwork(nad)
	switch {
	case errors.Is(err, attachment.ErrNoConfig):
		out.OnNodes = true
	case err != nil:
		out.Error = err.Error()
	}
	for _, p := range parsed.Plugins {
		out.Plugins = append(out.Plugins, p.Type)
		if p.IPAM != "" && !slices.Contains(out.IPAM, p.IPAM) {
			out.IPAM = append(out.IPAM, p.IPAM)
		}
		if p.Master != "" && !slices.Contains(out.Masters, p.Master) {
			out.Masters = append(out.Masters, p.Master)
		}
	}
	return out
}
