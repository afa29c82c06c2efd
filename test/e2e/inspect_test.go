//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/cli"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestKubectlFindsThePlugin runs `kubectl nadra` with the real kubectl, which finds
// kubectl-nadra in its PATH and passes arguments and exit status on. All other tests run
// the plugin directly.
func TestKubectlFindsThePlugin(t *testing.T) {
	f := setup(t, "plugin")
	const script = `PATH="$1:$PATH"; kubectl nadra version --client && ! kubectl nadra version --no-such-flag`
	machine := f.Cluster.ControlPlane()
	out, err := machine.Exec(f.ctx, "sh", "-c", script, "sh", filepath.Join(lab.Root(), "bin"))
	f.must(err)
	if !strings.Contains(string(out), "nadra.dev/v1alpha1") {
		f.Errorf("kubectl nadra version prints %q", out)
	}
}

// What the command line says of attachments is so: rows as they come and go,
// and for pods that get no network the step that keeps them from it.
func TestInspect(t *testing.T) {
	f := setup(t, "inspect")
	f.bridge("br-insp")
	installPlugin(t, "nadra-novf", `[ "$CNI_COMMAND" = DEL ] && exit 0; echo '{"cniVersion":"1.0.0","code":100,"msg":"no free virtual function"}'; exit 1`)
	f.nad("blue", strings.NewReplacer("br-bad", "br-insp", "10.66.", "10.83.").Replace(goodConf))
	f.nad("fails", plugin("nadra-novf"))
	f.nad("far", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan-of-others","ipam":{}}`)
	f.must(f.Published(f.ctx, "inspect/blue", "inspect/fails"))

	watched, stop := f.watchAttachments()
	f.start("web", lab.Want{Network: "blue", Config: map[string]any{"interface": "data0"}}, lab.Want{Network: "blue"})
	f.createAnnotated("old", "blue")
	f.createOfClass("typo", "blu.inspect.nad.nadra.dev")
	for name, network := range map[string]string{"novf": "fails", "remote": "far"} {
		_, err := f.Create(f.ctx, f.ns, name, lab.Want{Network: network})
		f.must(err)
	}

	row := regexp.MustCompile(`(?m)^web +data0 +inspect/blue +Attached +10\.83\.0\.\d+/24 +` + f.node.Name() + `\s*$`)
	f.eventually(2*time.Minute, func(context.Context) error { return matches(row, watched.String()) })
	f.eventually(time.Minute, f.says(cli.CodeOK, row, "get", "attachments", "--nad", "blue"))
	f.eventually(time.Minute, f.says(cli.CodeOK, regexp.MustCompile(`(?m)^novf .* Failed .* AttachFailed: .*no free virtual function`), "get", "att", "-o", "wide"))
	for pod, says := range map[string]string{
		"typo":   `(?s)FAILED +definition .*NetworkAttachmentDefinition inspect/blu does not exist.*Reason: +NetworkNotFound.*author of the pod's manifest`,
		"remote": `(?s)FAILED +nodes .*none of the nodes with nadra's driver \(` + f.node.Name() + `\) offers it.*administrator of the node`,
		"novf":   `(?s)FAILED +attachment .*no free virtual function.*Reason: +PluginFailed.*Whose job: +the CNI plugin`,
		"old":    `(?s)FAILED +claim .*nobody serves it.*the person who converts the workload`,
	} {
		f.eventually(time.Minute, f.says(cli.CodeBlockers, regexp.MustCompile(says), "explain", "pod/"+pod))
	}
	f.must(f.says(cli.CodeOK, regexp.MustCompile(`all its networks are attached(?s).*10\.83\.0\.`), "explain", "pod", "web")(f.ctx))
	f.must(f.says(cli.CodeOK, regexp.MustCompile(`"kind": "PodChain"(?s).*"verdict": "ok"`), "explain", "pod/web", "-o", "json")(f.ctx))

	for _, args := range [][]string{{"get", "attachments"}, {"get", "attachments", "-o", "wide"}, {"explain", "pod/web"}, {"explain", "pod/novf"}, {"explain", "pod/remote"}} {
		_, out, err := f.cli(f.ctx, args...)
		f.must(err)
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		if example := strings.Join(args, " "); example == "get attachments" || example == "explain pod/novf" {
			f.must(documented(example, out))
		}
	}

	f.must(f.DeletePod(f.ctx, f.ns, "web"))
	gone := regexp.MustCompile(`(?m)^web +data0 +inspect/blue +Gone`)
	f.eventually(2*time.Minute, func(context.Context) error { return matches(gone, watched.String()) })
	if code := stop(); code != cli.CodeOK {
		t.Errorf("the watch ends with %d", code)
	}
	f.must(f.says(cli.CodeError, regexp.MustCompile(`pods "web" not found`), "explain", "pod/web")(f.ctx))
	t.Logf("get attachments -w\n%s", watched)
}

// watchAttachments runs the command until stop, which interrupts it and returns
// its exit code.
func (f *fixture) watchAttachments() (out *safeBuffer, stop func() int) {
	ctx, interrupt := context.WithCancel(f.ctx)
	f.Cleanup(interrupt)
	out = &safeBuffer{}
	cmd := f.command(ctx, "get", "attachments", "-w")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	done := make(chan error, 1)
	go func() { done <- f.node.Run(cmd) }()
	return out, func() int {
		interrupt()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			f.Errorf("the interrupted watch: %v", err)
		}
		return cmd.ProcessState.ExitCode()
	}
}

// command is kubectl-nadra in the test's namespace. It runs on the node, from
// where the cluster can be reached.
func (f *fixture) command(ctx context.Context, args ...string) *exec.Cmd {
	binary := filepath.Join(lab.Root(), "bin", "kubectl-nadra")
	return f.node.Command(ctx, binary, append(args, "--kubeconfig", f.Cluster.Kubeconfig(), "-n", f.ns)...)
}

// cli runs a command of kubectl-nadra.
func (f *fixture) cli(ctx context.Context, args ...string) (code int, out string, err error) {
	var b safeBuffer
	cmd := f.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &b, &b
	var exit *exec.ExitError
	if err := f.node.Run(cmd); err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	return cmd.ProcessState.ExitCode(), b.String(), nil
}

// says succeeds when a command ends with the code and its output matches.
func (f *fixture) says(code int, want *regexp.Regexp, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, out, err := f.cli(ctx, args...)
		if err != nil {
			return err
		}
		if got != code {
			return fmt.Errorf("%s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, out)
		}
		return matches(want, out)
	}
}

func matches(want *regexp.Regexp, text string) error {
	if !want.MatchString(text) {
		return fmt.Errorf("nothing matches %s in:\n%s", want, text)
	}
	return nil
}

// createAnnotated creates a pod as Multus users write it.
func (f *fixture) createAnnotated(name, networks string) {
	f.Helper()
	pod := lab.Pod(f.ns, name, "")
	pod.Annotations = map[string]string{attachment.NetworksAnnotation: networks}
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	f.create(pod)
}

// createOfClass creates a pod with a claim for a class.
func (f *fixture) createOfClass(name, class string) {
	f.Helper()
	template := lab.Template(f.ns, name, lab.Want{Network: "any"})
	exactly := template.Spec.Spec.Devices.Requests[0].Exactly
	exactly.DeviceClassName, exactly.Selectors = class, nil
	f.must(f.CreateTemplate(f.ctx, template))
	f.create(lab.Pod(f.ns, name, name))
}

func (f *fixture) create(pod *corev1.Pod) {
	f.Helper()
	_, err := f.Kube.CoreV1().Pods(f.ns).Create(f.ctx, pod, metav1.CreateOptions{})
	f.must(err)
}

// safeBuffer can be read while a command writes.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
