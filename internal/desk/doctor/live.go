package doctor

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Cluster is the cluster to read.
type Cluster struct {
	Kube    kubernetes.Interface
	NADs    nadclient.Interface
	Dynamic dynamic.Interface
	// Raw gets a path of the API server.
	Raw func(ctx context.Context, path string) ([]byte, error)
	// Name names the cluster for people: its context.
	Name string
	// Nodes are the names of the nodes to read. Empty means all.
	Nodes []string
	// BesideMultus is set if the user says that nadra will run beside Multus on one node.
	BesideMultus bool
	// Progress, unless nil, is called with what is read next.
	Progress func(string)
}

// reader reads one cluster.
type reader struct {
	Cluster
	caps Capabilities
	// groups are the names of the API groups.
	groups []string
	// networks are the NADs, of which caps has what checks need.
	networks []*nadv1.NetworkAttachmentDefinition
	// installed has nadra's programs, as far as they were read.
	installed installation.Settings
}

// Read reads the cluster. What the user may not read is a gap of the result. Read returns
// an error if the cluster does not answer.
func (c Cluster) Read(ctx context.Context) (Capabilities, error) {
	r := reader{Cluster: c, caps: Capabilities{
		APIVersion: APIVersion, Kind: capabilitiesKind, Source: "cluster " + c.Name,
		Nodes: []Node{}, SomeNodes: len(c.Nodes) > 0, Networks: []Network{}, BesideMultus: c.BesideMultus,
	}}
	v, err := c.Kube.Discovery().ServerVersionWithContext(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return r.caps, fmt.Errorf("asking the cluster for its version: %w", err)
	}
	if !r.failed(PartVersion, "", err, "the right to get /version") {
		r.caps.Server.Version = v.GitVersion
		r.caps.Server.Emulated = emulated(v)
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
		{"pods", r.readPods},
		{"webhooks", r.readWebhook},
		{"slices", r.readSlices},
		{"network policies", r.readPolicies},
		{"programs that read networks", r.readReaders},
		{"whereabouts", r.readWhereabouts},
	} {
		if c.Progress != nil {
			c.Progress(step.what)
		}
		if step.read(ctx); ctx.Err() != nil {
			return r.caps, fmt.Errorf("reading the cluster: %w", ctx.Err())
		}
	}
	return r.caps, r.checkNodes()
}

// emulated returns the minor version that an API server emulates, if that is not its own.
// Older API servers do not report it.
func emulated(v *version.Info) string {
	if v.EmulationMinor == "" || v.EmulationMajor == v.Major && v.EmulationMinor == strings.TrimSuffix(v.Minor, "+") {
		return ""
	}
	return v.EmulationMajor + "." + v.EmulationMinor
}

// checkNodes returns an error for a name that no node has, if the nodes could be read.
func (r *reader) checkNodes() error {
	if r.caps.gap(PartNodes, "") != nil {
		return nil
	}
	for _, name := range r.Nodes {
		if !slices.ContainsFunc(r.caps.Nodes, func(n Node) bool { return n.Name == name }) {
			return fmt.Errorf("reading node %q: the cluster has no node of that name", name)
		}
	}
	return nil
}

// failed records a part that could not be read. It reports whether err is an error.
func (r *reader) failed(part, node string, err error, remedy string) bool {
	if err == nil {
		return false
	}
	r.caps.Gaps = append(r.caps.Gaps, Gap{Part: part, Node: node, Reason: ReasonOf(err), Remedy: remedy})
	return true
}

// lacked are the parts whose kinds a cluster may lack.
var lacked = []string{PartNetworks, PartPolicies, PartSlices}

// each calls do for all objects of a kind, whose objects the user needs a right to list, and reports whether the cluster has
// the kind and it could be read. It records a part that could not be.
func each[T any, L runtime.Object](ctx context.Context, r *reader, part, right string, o metav1.ListOptions, list kube.List[L], do func(*T)) bool {
	err := kube.EachItem(ctx, o, list, do)
	if apierrors.IsNotFound(err) && slices.Contains(lacked, part) {
		return false
	}
	return !r.failed(part, "", err, "the right to list "+right)
}

// ReasonOf shortens an error for a gap. A proxied kubelet answers with whole pages.
func ReasonOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return "not allowed to read it"
	case errors.As(err, &status) && status.Status().Code == http.StatusNotFound:
		return "not found"
	}
	return firstLine(err)
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// readGroups reads the API groups, and the resources of DRA's.
func (r *reader) readGroups(ctx context.Context) {
	groups, err := r.Kube.Discovery().ServerGroupsWithContext(ctx)
	if r.failed(PartGroups, "", err, "the right to get /apis") {
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
	if r.failed(PartGroups, "", err, "the right to get /apis/resource.k8s.io/v1") {
		return
	}
	for _, one := range resources.APIResources {
		if !strings.Contains(one.Name, "/") {
			r.caps.Server.Resources = append(r.caps.Server.Resources, one.Name)
		}
	}
	slices.Sort(r.caps.Server.Resources)
}

// readGates reads the API server's feature gates from its metrics, the only place that has
// them.
func (r *reader) readGates(ctx context.Context) {
	text, err := r.Raw(ctx, "/metrics")
	if !r.failed(PartGates, "", err, "the right to get the non-resource URL /metrics") {
		r.caps.Server.Gates = FeatureGates(string(text))
	}
}

// FeatureGates returns the feature gates about DRA from the API server's metrics. It parses
// lines such as
//
//	kubernetes_feature_enabled{name="DRAPrioritizedList",stage="BETA"} 1
func FeatureGates(metrics string) map[string]bool {
	gates := map[string]bool{}
	for line := range strings.Lines(metrics) {
		rest, found := strings.CutPrefix(line, `kubernetes_feature_enabled{name="`)
		if !found {
			continue
		}
		name, rest, _ := strings.Cut(rest, `"`)
		if strings.HasPrefix(name, "DRA") || strings.HasPrefix(name, "DynamicResource") || strings.HasPrefix(name, "ResourceHealth") {
			gates[name] = strings.HasSuffix(strings.TrimSpace(rest), "} 1")
		}
	}
	return gates
}

// readNetworks reads the NADs.
func (r *reader) readNetworks(ctx context.Context) {
	client := r.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("")
	each(ctx, r, PartNetworks, "network-attachment-definitions.k8s.cni.cncf.io", kube.All, client.List, func(nad *nadv1.NetworkAttachmentDefinition) {
		r.networks, r.caps.Networks = append(r.networks, nad), append(r.caps.Networks, networkOf(nad))
	})
	slices.SortFunc(r.caps.Networks, func(a, b Network) int { return strings.Compare(a.String(), b.String()) })
}

// networkOf returns what checks need about a network.
func networkOf(nad *nadv1.NetworkAttachmentDefinition) Network {
	out := Network{Namespace: nad.Namespace, Name: nad.Name}
	parsed, err := attachment.ParseNetwork(nad)
	switch {
	case errors.Is(err, attachment.ErrNoConfig):
		out.OnNodes = true
	case err != nil:
		out.Error = err.Error()
	}
	out.Plugins, out.IPAM = parsed.Programs()
	for _, p := range parsed.Plugins {
		if p.Master != "" && !slices.Contains(out.Masters, p.Master) {
			out.Masters = append(out.Masters, p.Master)
		}
	}
	return out
}
