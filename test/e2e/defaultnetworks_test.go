//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// The annotations of a pod that has default networks. The second one is a namespace's label, too.
const (
	networksKey = "k8s.v1.cni.cncf.io/networks"
	defaultsKey = "nadra.dev/default-networks"
)

// TestControllerDefaultNetworks tests networks that pods get without naming them: those of the controller's flag and
// those of a namespace's label. Its parts share one installation and depend on each other.
func TestControllerDefaultNetworks(t *testing.T) {
	f := setup(t, "defaults")
	f.bridge("br-drop")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx, "--default-networks="+f.NS+"/net"))
	f.Kubectl("patch", "mutatingwebhookconfiguration/nadra-controller", "--type=json", "--patch-file="+filepath.Join(lab.Root(), "manifests", "components", "default-networks", "webhook.yaml"))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.nad("net", dropInConf)
	f.nad("own", dropInConf)
	f.Must(f.Published(f.Ctx, f.NS+"/net"))
	f.Must(f.Published(f.Ctx, f.NS+"/own"))

	f.part("pods get the networks of the flag before their own", (*fixture).defaultsOfTheFlag)
	f.part("exempt pods and namespaces get none", (*fixture).withoutDefaults)
	f.part("a namespace has networks of its own, or none", (*fixture).defaultsOfTheNamespace)
	f.part("an outage holds back only pods that would get them", (*fixture).outageOfDefaults)
	f.part("without the flag pods are not changed", (*fixture).defaultsAreOff)
}

// named waits until a pod that would be created names exactly these networks.
func (f *fixture) named(pod *corev1.Pod, networks string) {
	f.Helper()
	f.Eventually(time.Minute, func(context.Context) error {
		got, err := f.dry(pod)
		if err == nil && got.Annotations[networksKey] != networks {
			err = fmt.Errorf("pod %s/%s names %q, want %q", pod.Namespace, pod.Name, got.Annotations[networksKey], networks)
		}
		return err
	})
}

// interfaces waits until a pod's network-status has these interfaces with their networks, besides eth0.
func (f *fixture) interfaces(name string, want ...string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		statuses, err := f.NetworkStatus(ctx, f.NS, name)
		var got []string
		for _, s := range statuses {
			if !s.Default {
				got = append(got, s.Interface+"="+s.Name)
			}
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("pod %s has %v, want %v", name, got, want)
		}
		return err
	})
}

func (f *fixture) defaultsOfTheFlag() {
	f.named(asking(f.NS, "dry", ""), "defaults/net") // once the webhook has its caBundle
	for name, networks := range map[string]string{"plain": "", "names": "own"} {
		_, err := f.CreatePod(f.Ctx, asking(f.NS, name, networks))
		f.Must(err)
		pod, err := f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
		if template(pod) == "" {
			f.Errorf("pod %s has no claim", name)
		}
	}
	f.interfaces("plain", "net1=defaults/net")
	f.interfaces("names", "net1=defaults/net", "net2=defaults/own")

	// A copy of a running pod has the default networks already.
	there, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "names", metav1.GetOptions{})
	f.Must(err)
	copied := asking(f.NS, "copied", "")
	copied.Annotations = map[string]string{networksKey: there.Annotations[networksKey], defaultsKey: there.Annotations[defaultsKey]}
	f.named(copied, "defaults/net,defaults/own")

	// A pod that names its node gets them without a claim.
	onNode := asking(f.NS, "on-node", "")
	onNode.Spec.NodeName = f.node.Name()
	f.named(onNode, "defaults/net")

	f.isRefused(controlled(asking(f.NS, "typo", "nowhere")), "defaults/nowhere", "--default-networks")
}

func (f *fixture) withoutDefaults() {
	none := asking(f.NS, "none", "")
	none.Annotations = map[string]string{defaultsKey: "none"}
	host := asking(f.NS, "host", "")
	host.Spec.HostNetwork = true
	for _, pod := range []*corev1.Pod{none, host, asking("kube-system", "system", ""), asking("nadra", "driver", "")} {
		got, err := f.dry(pod)
		f.Must(err)
		if got.Annotations[networksKey] != "" || got.Spec.ResourceClaims != nil || got.Spec.Affinity != nil {
			f.Errorf("pod %s/%s was changed: %v, %v", pod.Namespace, pod.Name, got.Annotations, got.Spec)
		}
	}
	// A pod of Multus is only kept off nadra's nodes.
	got, err := f.dry(asking("default", "other", ""))
	f.Must(err)
	if got.Annotations[networksKey] != "" || got.Spec.ResourceClaims != nil || got.Spec.Affinity == nil {
		f.Errorf("a pod of Multus: %v, %v", got.Annotations, got.Spec)
	}
}

func (f *fixture) defaultsOfTheNamespace() {
	f.Kubectl("label", "namespace", f.NS, defaultsKey+"=own_defaults__net")
	f.named(asking(f.NS, "dry", ""), "defaults/own,defaults/net")
	_, err := f.CreatePod(f.Ctx, asking(f.NS, "labelled", ""))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "labelled", 2*time.Minute)
	f.Must(err)
	f.interfaces("labelled", "net1=defaults/own", "net2=defaults/net")

	f.Kubectl("label", "namespace", f.NS, "--overwrite", defaultsKey+"=a__b__c")
	f.Eventually(time.Minute, func(context.Context) error {
		_, err := f.dry(asking(f.NS, "dry", ""))
		return contains("the refusal because of an invalid label", fmt.Sprint(err), []string{lab.Code(reason.DefaultNetworksInvalid)})
	})
	f.Kubectl("label", "namespace", f.NS, "--overwrite", defaultsKey+"=none")
	f.named(asking(f.NS, "dry", ""), "")
	f.named(asking(f.NS, "dry", "own"), "own")
	f.Kubectl("label", "namespace", f.NS, defaultsKey+"-")
	f.named(asking(f.NS, "dry", ""), "defaults/net")
}

func (f *fixture) outageOfDefaults() {
	f.Must(f.ScaleController(f.Ctx, 0))
	f.isRefused(asking(f.NS, "held", ""), "default-networks.nadra.dev")
	f.withoutDefaultsOfOthers()
	f.Must(f.ScaleController(f.Ctx, 2))
	f.named(asking(f.NS, "held", ""), "defaults/net")
}

// withoutDefaultsOfOthers checks that the API server admits pods that get no default networks.
func (f *fixture) withoutDefaultsOfOthers() {
	none := asking(f.NS, "none", "")
	none.Annotations = map[string]string{defaultsKey: "none"}
	for _, pod := range []*corev1.Pod{none, asking("kube-system", "system", "")} {
		if _, err := f.dry(pod); err != nil {
			f.Errorf("pod %s/%s during an outage: %v", pod.Namespace, pod.Name, err)
		}
	}
}

func (f *fixture) defaultsAreOff() {
	f.Kubectl("-n", "nadra-system", "patch", "deployment/nadra-controller", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["--namespace=$(NAMESPACE)"]}]`)
	f.Must(f.WaitController(f.Ctx))
	f.named(asking(f.NS, "dry", ""), "")
	f.interfaces("plain", "net1=defaults/net") // running pods are not changed
}
