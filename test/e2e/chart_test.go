//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestChart installs, upgrades and uninstalls the chart with the real Helm on a cluster
// without nadra. An annotated pod must run, and the CRD of NADs must stay. Another chart, to which
// kubectl nadra convert is the post-renderer, must run with its network, too.
func TestChart(t *testing.T) {
	helm := buildHelm(t) // before the time limit: without caches, the build alone takes minutes
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	f := startBare(ctx, t)
	run := func(args ...string) string {
		t.Helper()
		out, err := f.Cluster.ControlPlane().Exec(ctx, helm, append([]string{"--kubeconfig", f.Cluster.Kubeconfig(), "-n", "default"}, args...)...)
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	chart := filepath.Join(lab.Root(), "manifests", "chart")
	at := f.Cluster.Layout()
	directories := []string{"--set", fmt.Sprintf("node.directories.state=%s,node.directories.kubelet=%s,node.directories.nri=%s,node.directories.cdi=%s",
		at.State, at.Kubelet, filepath.Dir(at.NRISocket), at.CDI)}
	cni := fmt.Sprintf("node.args={--cni-bin-dirs=%s,--cni-conf-dir=%s", at.CNIPrograms, at.CNIConfig)
	printed := run(append(directories, "install", "nadra", chart, "--wait", "--timeout=120s", "--set", cni+"}")...)
	f.containsAll(printed, "kubectl label node NODE nadra.dev/owner=nadra")
	f.Must(f.WaitController(ctx))
	f.Kubectl("label", "nodes", "--all", "nadra.dev/owner=nadra")
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.Must(f.WaitDriver(ctx))

	f.Must(f.CreateNAD(ctx, f.NS, "net", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-chart","ipam":{"type":"host-local","subnet":"10.68.0.0/24"}}`))
	f.comesUp("first")
	run(append(directories, "upgrade", "nadra", chart, "--wait", "--timeout=120s", "--set", "namespaceIsolation=true", "--set", cni+",--hook-budget=500ms}")...)
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=90s")
	f.Must(f.WaitController(ctx))
	f.comesUp("second")
	f.isRefused(asking(f.NS, "elsewhere", "kube-system/net"), "kube-system/net")
	for _, name := range []string{"first", "second"} {
		f.Must(f.DeletePod(ctx, f.NS, name))
	}

	// Another chart, converted on its way into a namespace that the webhook leaves alone.
	app := filepath.Join(t.TempDir(), "app")
	f.Must(os.MkdirAll(filepath.Join(app, "templates"), 0o755))
	for name, text := range map[string]string{"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/app.yaml": appTemplate} {
		f.Must(os.WriteFile(filepath.Join(app, name), []byte(text), 0o644))
	}
	values := "network=lan,image=" + cluster.TestImage
	convert := []string{"convert", "-n", "rendered", "--classes=false", "-q", "-f"}
	install := []string{"upgrade", "--install", "app", app, "-n", "rendered", "--create-namespace", "--timeout=120s", "--set", values}
	for _, arg := range append(convert, "-") {
		install = append(install, "--post-renderer-args", arg)
	}
	install = append(install, "--post-renderer", lab.Built("kubectl-nadra"))
	for range 2 { // an upgrade changes nothing
		run(install...)
		f.Kubectl("-n", "rendered", "rollout", "status", "deployment/app", "--timeout=120s")
	}
	f.Kubectl("-n", "rendered", "exec", "deployment/app", "--", "ip", "link", "show", "data")
	if revisions := strings.Fields(f.Kubectl("-n", "rendered", "get", "replicasets", "-o", "name")); len(revisions) != 1 {
		t.Errorf("the upgrade made another ReplicaSet: %v", revisions)
	}
	// The pipeline of a GitOps controller, which renders without installing, makes the same manifests.
	rendered := filepath.Join(t.TempDir(), "rendered.yaml")
	f.Must(os.WriteFile(rendered, []byte(run("template", "app", app, "-n", "rendered", "--set", values)), 0o644))
	piped := f.nadra(0, append(convert, rendered)...).Out
	if diff := cmp.Diff(strings.TrimSpace(run("get", "manifest", "app", "-n", "rendered")), strings.TrimSpace(piped)); diff != "" {
		t.Errorf("helm template and convert (-post-renderer +pipeline):\n%s", diff)
	}
	f.nadra(0, "scan", "-n", "rendered", "-f", rendered, "-o", "json").scanned(report.Verdicts{Ready: 1})
	run("uninstall", "app", "-n", "rendered", "--wait", "--timeout=120s")

	run("uninstall", "nadra", "--wait", "--timeout=120s")
	left := f.Kubectl("get", "daemonsets,deployments,clusterroles,mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies",
		"-A", "-o", "name")
	if strings.Contains(left, "nadra") {
		t.Errorf("helm uninstall has left:\n%s", left)
	}
	if _, err := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.NS).Get(ctx, "net", metav1.GetOptions{}); err != nil {
		t.Errorf("a NetworkAttachmentDefinition after helm uninstall: %v", err)
	}
}

// appTemplate is a chart's template whose network is a value.
const appTemplate = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: {{ .Values.network }}}
spec:
  config: '{"cniVersion":"1.0.0","type":"bridge","bridge":"br-rendered","ipam":{"type":"host-local","subnet":"10.69.0.0/24"}}'
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata:
      labels: {app: app}
      annotations: {k8s.v1.cni.cncf.io/networks: "{{ .Values.network }}@data"}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "{{ .Values.image }}", command: [sleep, infinity]}
`

// startBare starts a cluster for the test, with nadra's images but without nadra.
func startBare(ctx context.Context, t *testing.T) *fixture {
	t.Helper()
	archives, err := lab.Archives()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), ImageArchives: archives, Out: testWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	l, err := lab.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Fixture: lab.Fixture{Lab: l, T: t, Ctx: ctx, NS: "default"}, node: c.Node(1)}
}

// buildHelm builds the Helm whose library also renders the chart in its tests.
func buildHelm(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helm")
	build := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(lab.Root(), "test", "chart"), "build", "-o", path, "helm.sh/helm/v3/cmd/helm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building helm: %v\n%s", err, out)
	}
	return path
}

// comesUp creates a pod with only the annotation and waits until it is Ready with its
// network.
func (f *fixture) comesUp(name string) {
	f.Helper()
	_, err := f.CreatePod(f.Ctx, asking(f.NS, name, "net@data"))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
	f.Must(err)
	f.Kubectl("-n", f.NS, "exec", name, "--", "ip", "link", "show", "data")
}
