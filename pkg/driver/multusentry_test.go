package driver

import (
	"context"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestMultusEntry checks which entries are the first ones of network-status beside Multus.
func TestMultusEntry(t *testing.T) {
	const multus = `[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.0.5"],"mac":"02:00:00:00:00:0a","default":true,"dns":{"nameservers":["10.0.0.1"]}}]`
	for _, tt := range []struct{ name, status, want string }{
		{"as Multus has written it", multus, "ovn-kubernetes eth0"},
		{"two interfaces", `[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.0.5"]},{"name":"ovn-kubernetes","interface":"udn1","ips":["10.9.0.5"],"default":true},{"name":"shop/blue","interface":"net1"}]`, "ovn-kubernetes eth0, ovn-kubernetes udn1"},
		{"of an earlier sandbox", `[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.0.4"],"default":true}]`, "cbr0 eth0"},
		{"without a default network", `[{"name":"shop/blue","interface":"net1","ips":["10.244.0.5"]}]`, "cbr0 eth0"},
		{"none", "", "cbr0 eth0"},
		{"no JSON", "[", "cbr0 eth0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid", Annotations: map[string]string{nadv1.NetworkStatusAnnot: tt.status}},
			}
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			for _, seen := range []bool{true, false} {
				watch, err := newPodWatch(nil, "node-1")
				if err != nil {
					t.Fatal(err)
				}
				if seen {
					if err := watch.informer.GetStore().Add(&knownPod{PartialObjectMetadata: *pod}); err != nil {
						t.Fatal(err)
					}
				}
				own := func(context.Context, attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
					return []*nadv1.NetworkStatus{{Name: "cbr0", Interface: "eth0", IPs: []string{"10.244.0.5"}, Default: true}}, nil
				}
				n := &node{
					environment: &environment{defaultNetwork: own, watch: watch}, cfg: Config{BesideMultus: true},
					clients: Clients{Metadata: metadatafake.NewSimpleMetadataClient(scheme, pod)},
				}
				got, err := n.defaultEntries(t.Context(), attachment.Sandbox{Pod: attachment.PodRef{Namespace: "default", Name: "web", UID: "web-uid"}})
				var names []string
				for _, entry := range got {
					names = append(names, entry.Name+" "+entry.Interface)
				}
				if got := strings.Join(names, ", "); err != nil || got != tt.want {
					t.Errorf("the watch has seen the pod: %t: got %s, %v, want %s", seen, got, err, tt.want)
				}
			}
		})
	}
}

// TestAnnotationBesideMultus checks by which annotation a sandbox requests networks of nadra.
func TestAnnotationBesideMultus(t *testing.T) {
	const multus, own = attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation
	for _, tt := range []struct {
		annotations   map[string]string
		alone, beside string
	}{
		{map[string]string{multus: "blue"}, "blue", ""},
		{map[string]string{own: "blue"}, "blue", "blue"},
		{map[string]string{multus: "red", own: "blue"}, "blue", "blue"},
		{map[string]string{multus: "red", own: " "}, "red", " "},
		{nil, "", ""},
	} {
		for beside, want := range map[bool]string{false: tt.alone, true: tt.beside} {
			s := (&node{environment: &environment{isHost: nowhere}, cfg: Config{BesideMultus: beside}}).sandboxOf(&nri.PodSandbox{Annotations: tt.annotations})
			if *s.Networks != want {
				t.Errorf("%v, beside Multus %t: got %q, want %q", tt.annotations, beside, *s.Networks, want)
			}
		}
	}
}
