//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/bundle"
	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/test/lab"
)

// plantedSecret is in a network's configuration, in a pod's environment, its
// arguments and its other annotations, in a ConfigMap of nadra, and in a Secret.
const plantedSecret = "Pl4nted-hunter2"

// TestBundle makes the archive of a real cluster, which must have everything for support,
// and no secret.
func TestBundle(t *testing.T) {
	f := setup(t, "bundle")
	f.bridge("br-bundle")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-bundle","ipam":{"type":"host-local","subnet":"10.87.0.0/24"},
"args":{"password":"`+plantedSecret+`","url":"https://user:`+plantedSecret+`@controller.example"}}`)
	f.Must(f.Published(f.Ctx, "bundle/blue"))
	_, err := f.Kube.CoreV1().Secrets("nadra").Create(f.Ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "nadra-planted"}, StringData: map[string]string{"x": plantedSecret},
	}, metav1.CreateOptions{})
	f.Must(err)
	t.Cleanup(func() { f.Kubectl("-n", "nadra", "delete", "secret,configmap", "nadra-planted") })
	_, err = f.Kube.CoreV1().ConfigMaps("nadra").Create(f.Ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "nadra-planted"}, Data: map[string]string{"a.yaml": "user: a\npassword: " + plantedSecret + "\n"},
	}, metav1.CreateOptions{})
	f.Must(err)

	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod := lab.Pod(f.NS, "web", "web")
	pod.Annotations = map[string]string{"vault.example/thing": plantedSecret}
	main := &pod.Spec.Containers[0]
	main.Env = []corev1.EnvVar{{Name: "DB_PASSWORD", Value: plantedSecret}, {Name: "OTHER", Value: plantedSecret}}
	main.Args = []string{plantedSecret}
	_, err = f.CreatePod(f.Ctx, pod)
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "web", 3*time.Minute)
	f.Must(err)
	_, err = f.NetworkStatus(f.Ctx, f.NS, "web")
	f.Must(err)

	files := f.bundle("--probe")
	f.Must(f.noProbes())
	for name, text := range files {
		if strings.Contains(text, plantedSecret) {
			t.Errorf("%s has the secret", name)
		}
	}
	driver := f.Kubectl("-n", "nadra", "get", "pods", "-l", "app.kubernetes.io/name=nadra-node", "-o", "jsonpath={.items[0].metadata.name}")
	for name, part := range map[string]string{
		"README.md":                                      bundle.Mark,
		"doctor/capabilities.json":                       `"bridge"`, // a plugin of the node, which only a probe sees
		"attachments.json":                               `"state": "Attached"`,
		"objects/pods.json":                              `"web"`,
		"objects/resourceclaims.json":                    "net.nadra.dev",
		"objects/resourceslices.json":                    "net.nadra.dev",
		"objects/deviceclasses.json":                     "blue.bundle.nad.nadra.dev",
		"objects/network-attachment-definitions.json":    `\"bridge\":\"br-bundle\"`,
		"objects/configmaps.json":                        bundle.Mark,
		"objects/events.json":                            "AddedInterface",
		"objects/daemonsets.json":                        "--host-root=/host",
		"objects/deployments.json":                       "nadra-controller",
		"objects/mutatingwebhookconfigurations.json":     `"caBundle": "` + bundle.Mark,
		"objects/validatingadmissionpolicies.json":       "nadra-slices",
		"logs/nadra/" + driver + "/nadra-node.log":       `"Attached pod"`,
		"metrics/nadra/" + driver + ".prom":              "nadra_",
		"objects/resourceclaimtemplates.json":            `"web"`,
		"objects/validatingwebhookconfigurations.json":   "nadra-controller",
		"objects/validatingadmissionpolicybindings.json": "nadra-slices",
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s lacks %q:\n%.2000s", name, part, files[name])
		}
	}
	var index bundle.Index
	f.Must(json.Unmarshal([]byte(files["index.json"]), &index))
	if len(index.Redacted) != 3 || len(index.Files) < 20 {
		t.Errorf("index %+v", index)
	}
	t.Logf("%s", files["README.md"])

	hidden := f.bundle("--hide-addresses")
	for name, text := range hidden {
		if strings.Contains(text, "10.87.0.") {
			t.Errorf("%s has an address", name)
		}
	}
	if !strings.Contains(hidden["attachments.json"], "ipv4-") {
		t.Errorf("no pseudonym: %s", hidden["attachments.json"])
	}
}

// bundle makes an archive, unpacks it with the machine's own tar, and returns its files.
func (f *fixture) bundle(args ...string) map[string]string {
	f.Helper()
	dir := f.TempDir()
	archive := filepath.Join(dir, "bundle.tar.gz")
	code, out, err := f.cli(f.Ctx, append([]string{"bundle", "--output-file", archive}, args...)...)
	f.Must(err)
	if code != cli.CodeOK {
		f.Fatalf("exit code %d: %s", code, out)
	}
	f.Logf("%s", out)
	if out, err := exec.Command("tar", "-C", dir, "-xzf", archive).CombinedOutput(); err != nil {
		f.Fatalf("unpacking: %v: %s", err, bytes.TrimSpace(out))
	}
	files := map[string]string{}
	root := os.DirFS(filepath.Join(dir, strings.TrimSuffix(bundle.Folder, "/")))
	f.Must(fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		files[name] = string(text)
		return err
	}))
	return files
}
