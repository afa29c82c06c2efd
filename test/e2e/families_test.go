//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// familiesOf has the families of nodes, services and pods by the names of NADRA_FAMILIES.
var familiesOf = map[string][]string{"": {"IPv4"}, "ipv6": {"IPv6"}, "dual": {"IPv4", "IPv6"}}

// families returns the families of addresses, in their order.
func families(addresses ...string) []string {
	out := make([]string, 0, len(addresses))
	for _, text := range addresses {
		switch addr, err := netip.ParseAddr(text); {
		case err != nil:
			out = append(out, text)
		case addr.Is4():
			out = append(out, "IPv4")
		default:
			out = append(out, "IPv6")
		}
	}
	return out
}

// TestFamilies checks what nadra reports of addresses, and whom it reaches, on a cluster
// whose nodes, services and pods have IPv4, IPv6 or both (NADRA_FAMILIES). A network of a NAD
// has both in each case.
func TestFamilies(t *testing.T) {
	f := setup(t, "families")
	want := familiesOf[f.Cluster.Families()]
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.bridge("br-fam")
	f.nad("both", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-fam","ipam":{"type":"host-local",
		"ranges":[[{"subnet":"10.89.0.0/24"}],[{"subnet":"fd00:89::/64"}]]}}`)
	f.Must(f.Published(f.Ctx, "families/both"))

	t.Run("the API server and the webhook are reached in the cluster's first family", func(t *testing.T) {
		service, err := f.Kube.CoreV1().Services("default").Get(f.Ctx, "kubernetes", metav1.GetOptions{})
		f.Must(err)
		same("the service kubernetes", want[:1], families(service.Spec.ClusterIPs...))
		slices, err := f.Kube.DiscoveryV1().EndpointSlices(lab.ControllerNamespace).List(f.Ctx, metav1.ListOptions{})
		f.Must(err)
		if len(slices.Items) == 0 {
			t.Error("the webhook has no endpoints")
		}
		for i := range slices.Items {
			same("endpoints of the webhook", discoveryv1.AddressType(want[0]), slices.Items[i].AddressType)
		}
	})
	for _, name := range []string{"one", "two"} {
		_, err := f.CreatePod(f.Ctx, asking(f.NS, name, "both"))
		f.Must(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"one", "two"} {
		pod, err := f.Ready(f.Ctx, f.NS, name, 3*time.Minute)
		f.Must(err)
		pods[name] = pod
	}
	one := pods["one"]
	if len(one.Spec.ResourceClaims) != 1 {
		t.Fatalf("the webhook has given the pod the claims %+v", one.Spec.ResourceClaims)
	}
	node, err := f.Kube.CoreV1().Nodes().Get(f.Ctx, one.Spec.NodeName, metav1.GetOptions{})
	f.Must(err)
	var nodeIPs []string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			nodeIPs = append(nodeIPs, a.Address)
		}
	}
	same("the node's addresses", want, families(nodeIPs...))
	var podIPs []string
	for _, ip := range one.Status.PodIPs {
		podIPs = append(podIPs, ip.IP)
	}
	same("the pod's addresses", want, families(podIPs...))

	statuses := f.statuses(one)
	same("eth0 in network-status", podIPs, statuses[0].IPs)
	same("eth0's gateways in network-status", want, families(statuses[0].Gateway...))
	same("net1 in network-status", []string{"IPv4", "IPv6"}, families(statuses[1].IPs...))
	claim := f.claimWhen(one, func(c *resourceapi.ResourceClaim) error {
		if len(c.Status.Devices) != 1 || c.Status.Devices[0].NetworkData == nil {
			return fmt.Errorf("status.devices %+v", c.Status.Devices)
		}
		return nil
	})
	same("the claim's status", []string{statuses[1].IPs[0] + "/24", statuses[1].IPs[1] + "/64"}, claim.Status.Devices[0].NetworkData.IPs)

	t.Run("the pods reach each other on both networks", func(t *testing.T) {
		peers := append(slices.Clone(f.statuses(pods["two"])[0].IPs), f.statuses(pods["two"])[1].IPs...)
		for _, peer := range peers {
			if out, err := f.Exec(f.Ctx, f.NS, "one", "ping", "-c1", "-W3", peer); err != nil {
				t.Errorf("ping %s: %v\n%s", peer, err, out)
			}
		}
	})
	t.Run("kubectl nadra get attachments lists the addresses", func(t *testing.T) {
		f.Eventually(time.Minute, func(ctx context.Context) error {
			out, err := f.Nadra(ctx, "get", "attachments", "-n", f.NS, "--kubeconfig", f.Cluster.Kubeconfig())
			if err != nil {
				return err
			}
			for _, ip := range statuses[1].IPs {
				if !strings.Contains(out.Out, ip) || out.Code != 0 {
					return fmt.Errorf("it ends with %d and lacks %s:\n%s%s", out.Code, ip, out.Out, out.Err)
				}
			}
			return nil
		})
	})
	t.Run("metrics and health are served at all addresses", func(t *testing.T) {
		urls := []string{}
		for _, ip := range nodeIPs {
			urls = append(urls, "http://"+net.JoinHostPort(ip, "9078")+"/metrics", "http://"+net.JoinHostPort(ip, "9078")+"/readyz")
		}
		for _, ip := range f.controllerIPs(len(want)) {
			urls = append(urls, "http://"+net.JoinHostPort(ip, "8080")+"/metrics", "http://"+net.JoinHostPort(ip, "8081")+"/readyz")
		}
		client := &http.Client{Transport: &http.Transport{DialContext: f.Cluster.ControlPlane().Dial, DisableKeepAlives: true}, Timeout: 10 * time.Second}
		for _, url := range urls {
			response, err := client.Get(url)
			if err == nil {
				err = response.Body.Close()
			}
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("%s: %v", url, err)
			}
		}
	})
}

// controllerIPs returns the addresses of the controller's pods, which have one of each family.
func (f *fixture) controllerIPs(families int) []string {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods(lab.ControllerNamespace).List(f.Ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nadra-controller"})
	f.Must(err)
	var out []string
	for i := range pods.Items {
		for _, ip := range pods.Items[i].Status.PodIPs {
			out = append(out, ip.IP)
		}
	}
	if len(out) != families*len(pods.Items) || len(out) == 0 {
		f.Fatalf("the %d pods of the controller have the addresses %q", len(pods.Items), out)
	}
	return out
}
