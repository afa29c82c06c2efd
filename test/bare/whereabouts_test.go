//go:build e2e

package bare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestWhereaboutsOfAnImage attaches a network whose IPAM plugin, whereabouts, is in an image: macvlan, of another image, finds
// it, and it finds its configuration and kubeconfig where the NAD says. After the pod its address is free.
func TestWhereaboutsOfAnImage(t *testing.T) {
	f := setup(t, "whereabouts")
	f.Must(f.patchImage(released)) // another test may have changed it
	manifest, err := whereabouts.Manifest(func(o *unstructured.Unstructured) (bool, error) {
		return !slices.Contains([]string{"DaemonSet", "ConfigMap"}, o.GetKind()), nil // which would write the plugin to the node
	})
	f.Must(err)
	f.Must(f.Apply(f.Ctx, manifest))
	f.Must(lab.WaitEstablished(f.Ctx, f.Cluster, "ippools.whereabouts.cni.cncf.io", "overlappingrangeipreservations.whereabouts.cni.cncf.io"))
	const file, kubeconfig = "/srv/cni/whereabouts.conf", "/srv/cni/whereabouts.kubeconfig"
	f.writeKubeconfig(kubeconfig)
	f.Must(lab.WriteHostFile(f.node(), file, []byte(`{"datastore":"kubernetes","kubernetes":{"kubeconfig":"`+kubeconfig+`"}}`), 0o600))
	f.Must(f.CreateNAD(f.Ctx, f.NS, "shared", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0","ipam":{"type":"whereabouts","range":"10.91.0.0/24","configuration_path":"`+file+`"}}`))
	f.Must(f.Published(f.Ctx, f.NS+"/shared"))
	state := f.node().Layout().State + "/images/"
	f.has("a", "shared", "10.91.0.1/24", map[string]string{state + "reference/macvlan": lab.Built("cni-plugins") + "/macvlan", state + "whereabouts/whereabouts": whereabouts.Plugin})
	f.Kubectl("delete", "pod", "a", "--timeout=60s")
	f.Eventually(waitLimit, func(ctx context.Context) error {
		left, err := f.Cluster.Kubectl(ctx, "get", "ippools", "-A", "-o", "jsonpath={.items[*].spec.allocations}")
		if err == nil && strings.Contains(left, "podref") {
			err = fmt.Errorf("whereabouts still has allocations: %s", left)
		}
		return err
	})
}

// writeKubeconfig writes a kubeconfig of whereabouts' account to the node.
func (f *fixture) writeKubeconfig(path string) {
	f.Helper()
	config, err := clientcmd.LoadFromFile(f.Cluster.Kubeconfig())
	f.Must(err)
	token, err := f.Cluster.Kubectl(f.Ctx, "-n", "kube-system", "create", "token", "whereabouts", "--duration=1h")
	f.Must(err)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(token)}
	}
	content, err := clientcmd.Write(*config)
	f.Must(err)
	f.Must(lab.WriteHostFile(f.node(), path, content, 0o600))
}
