//go:build e2e

package bare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestWhereaboutsOfAnImage attaches a network whose IPAM plugin, whereabouts, is in an image: macvlan, of another image, finds
// it, and it finds its configuration and kubeconfig where the NAD says. After the pod its address is free.
func TestWhereaboutsOfAnImage(t *testing.T) {
	f := setup(t, "whereabouts")
	f.Must(f.Apply(f.Ctx, whereaboutsObjects(t)))
	f.Must(lab.WaitEstablished(f.Ctx, f.Cluster, "ippools.whereabouts.cni.cncf.io", "overlappingrangeipreservations.whereabouts.cni.cncf.io"))
	const file, kubeconfig = "/srv/cni/whereabouts.conf", "/srv/cni/whereabouts.kubeconfig"
	f.writeKubeconfig(kubeconfig)
	outside, err := f.node().HostPath(file)
	f.Must(err)
	f.Must(os.WriteFile(outside, []byte(`{"datastore":"kubernetes","kubernetes":{"kubeconfig":"`+kubeconfig+`"}}`), 0o600))
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

// whereaboutsObjects returns the CRDs, the account and the rights of whereabouts' module, without its DaemonSet, which
// would write the plugin to the node.
func whereaboutsObjects(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(whereabouts.CRDs, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("looking for manifests in %s: %d found, %v", whereabouts.CRDs, len(files), err)
	}
	var out []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range strings.Split(string(content), "\n---\n") {
			if !strings.Contains(object, "kind: DaemonSet") && !strings.Contains(object, "kind: ConfigMap") {
				out = append(out, object)
			}
		}
	}
	return strings.Join(out, "\n---\n")
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
	outside, err := f.node().HostPath(path)
	f.Must(err)
	f.Must(clientcmd.WriteToFile(*config, outside))
}
