//go:build e2e

package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// running returns the pods with networks.
func (f *fixture) running() []corev1.Pod {
	f.Helper()
	list, err := f.Kube.CoreV1().Pods(namespace).List(f.Ctx, metav1.ListOptions{LabelSelector: "app,app!=plain"}) // canaries have no app
	f.Must(err)
	return list.Items
}

// observation is what must not change of a pod.
type observation struct {
	UID        types.UID
	Containers []string // their IDs, which a restart changes
	Sandbox    string
	Namespace  string // interfaces, addresses, routes and rules
}

// passing matches what changes in a network namespace by itself.
var passing = regexp.MustCompile(`(expires|valid_lft|preferred_lft) \d+sec`)

// observed describes pods, by name.
func (f *fixture) observed(pods []corev1.Pod) map[string]observation {
	f.Helper()
	out := map[string]observation{}
	for i := range pods {
		p := &pods[i]
		n := f.NodeOf(p)
		uid := string(p.UID)
		if config := p.Annotations["kubernetes.io/config.hash"]; config != "" { // a static pod
			uid = config
		}
		sandbox, err := n.PodSandbox(f.Ctx, uid)
		f.Must(err)
		o := observation{UID: p.UID, Sandbox: sandbox.ID}
		for _, c := range p.Status.ContainerStatuses {
			o.Containers = append(o.Containers, fmt.Sprintf("%s restarted %d times", c.ContainerID, c.RestartCount))
		}
		f.Eventually(20*time.Second, func(ctx context.Context) error {
			out, err := n.Exec(ctx, "nsenter", "--net="+sandbox.NetNS, "sh", "-ec",
				"ip -o -d link; ip -o addr; ip -4 route show table all; ip -6 route show table all; ip rule; ip -6 rule")
			if err == nil && strings.Contains(string(out), " tentative") { // the kernel still looks for another owner of an IPv6 address
				err = fmt.Errorf("an address of pod %s is tentative", p.Name)
			}
			o.Namespace = passing.ReplaceAllString(string(out), "")
			return err
		})
		out[p.Name] = o
	}
	return out
}

// aims returns the addresses of pods on their networks.
func (f *fixture) aims(pods []corev1.Pod) []aim {
	f.Helper()
	var out []aim
	for i := range pods {
		p := &pods[i]
		statuses, err := f.NetworkStatus(f.Ctx, p.Namespace, p.Name)
		f.Must(err)
		for _, s := range statuses {
			for _, ip := range s.IPs {
				if v4 := net.ParseIP(ip).To4(); v4 != nil && !s.Default {
					if link, bridge := f.linkOf(s.Name); link != "" {
						out = append(out, aim{cmp.Or(p.Labels["app"], p.Name), f.NodeOf(p), link, bridge, v4})
					}
				}
			}
		}
	}
	return out
}

// linkOf returns the link of the node that a network is on, by its NAD: a master or a bridge.
func (f *fixture) linkOf(network string) (name string, bridge bool) {
	f.Helper()
	ns, nad, _ := strings.Cut(network, "/")
	config := f.Kubectl("-n", ns, "get", "net-attach-def", nad, "-o", "jsonpath={.spec.config}")
	if match := bridgeName.FindStringSubmatch(config); match != nil {
		return match[1], true
	}
	for _, m := range masters {
		if strings.Contains(config, `"`+m+`"`) {
			return m, false
		}
	}
	return "", false // the plugin takes the node's own interface
}

// bridgeName matches the bridge of a configuration.
var bridgeName = regexp.MustCompile(`"bridge": *"([^"]+)" *,`)
