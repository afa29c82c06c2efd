//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestDoctor runs doctor on a real cluster. Without --probe it must not know the facts that
// only nodes have, with --probe it must find NRI and the plugins, and it must delete its
// pods.
func TestDoctor(t *testing.T) {
	f := setup(t, "doctor")
	f.bridge("br-doc")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-doc","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`)
	f.nad("far", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan-of-others"}`)

	// The driver publishes networks before the API server shows that it is ready.
	_, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=60s")
	f.Must(err)
	outside := f.doctor()
	for id, want := range map[string]translate.Severity{
		"kubernetes-version": doctor.OK, "dra-api": doctor.OK, "nadra-driver": doctor.OK,
		"kubelet-version": doctor.OK, "kernel-version": doctor.OK, "topology-manager": doctor.OK, "multus": doctor.OK,
		"nri": doctor.Unknown, "cdi": doctor.Unknown, "cni-plugins": doctor.Unknown,
	} {
		f.Must(hasCheck(outside, id, want, ""))
	}

	inside := f.doctor("--probe")
	for id, want := range map[string]struct {
		status translate.Severity
		detail string
	}{
		"nri":                 {doctor.OK, runtimeNames[f.node.Runtime().Name()]},
		"nri-request-timeout": {doctor.OK, "s"},
		"cdi":                 {doctor.OK, f.at.CDI},
		"cni-configuration":   {doctor.OK, f.at.CNIConfig + "/"},
		"network-plugins":     {doctor.OK, ""},
		"cni-plugins":         {doctor.OK, "plugins"},
		"masters":             {translate.Info, "lan-of-others"},
		"network-masters":     {translate.Warning, "lan-of-others"},
	} {
		f.Must(hasCheck(inside, id, want.status, want.detail))
	}
	f.Must(f.noProbes())

	// A pod that cannot run is reported with the kubelet's reason, and deleted as well. The reason
	// alternates between two, of which one is the runtime's; both have the image's name.
	absent := f.doctor("--probe", "--image", "localhost/absent:1", "--probe-timeout", "15s")
	f.Must(hasCheck(absent, "nri", doctor.Unknown, "localhost/absent:1"))
	f.Must(f.noProbes())
}

// runtimeNames has the names that runtimes give themselves, by their components.
var runtimeNames = map[string]string{cluster.Containerd: "containerd", cluster.CRIO: "cri-o"}

// doctor runs the command with JSON output and returns the report.
func (f *fixture) doctor(args ...string) *doctor.Report {
	f.Helper()
	binary := lab.Built("kubectl-nadra")
	args = append([]string{"doctor", "-o", "json", "--kubeconfig", f.Cluster.Kubeconfig()}, args...)
	var out, errs safeBuffer
	cmd := f.node.Command(f.Ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := f.node.Run(cmd); err != nil && !errors.As(err, &exit) {
		f.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != cli.CodeOK && code != cli.CodeBlockers {
		f.Fatalf("doctor ends with %d: %s", code, errs.String())
	}
	var r doctor.Report
	f.Must(json.Unmarshal([]byte(out.String()), &r))
	f.Logf("doctor %s: %+v", strings.Join(args[5:], " "), r.Summary)
	return &r
}

// hasCheck returns an error unless the first check with an ID has a status and a detail.
func hasCheck(r *doctor.Report, id string, status translate.Severity, detail string) error {
	for _, c := range r.Checks {
		if c.Title != id {
			continue
		}
		if c.Severity != status || !strings.Contains(c.Message, detail) {
			return fmt.Errorf("%s: %s %q, want %s %q", id, c.Severity, c.Message, status, detail)
		}
		return nil
	}
	return fmt.Errorf("doctor has no check %s", id)
}

// noProbes returns an error if a probe pod is left.
func (f *fixture) noProbes() error {
	pods, err := f.Kube.CoreV1().Pods(metav1.NamespaceAll).List(f.Ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nadra-probe"})
	if err != nil {
		return err
	}
	if n := len(pods.Items); n > 0 {
		return fmt.Errorf("%d pods are left, %s/%s first", n, pods.Items[0].Namespace, pods.Items[0].Name)
	}
	return nil
}
