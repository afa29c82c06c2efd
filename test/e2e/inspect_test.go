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

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/pkg/api/reason"
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
	out, err := machine.Exec(f.Ctx, "sh", "-c", script, "sh", filepath.Dir(lab.Built("kubectl-nadra")))
	f.Must(err)
	if !strings.Contains(string(out), "nadra.dev/v1alpha1") {
		f.Errorf("kubectl nadra version prints %q", out)
	}
}

// TestInspect checks the output about attachments: rows appear and disappear with them, and
// explain finds the step that fails for pods without a network.
func TestInspect(t *testing.T) {
	f := setup(t, "inspect")
	f.bridge("br-insp")
	installPlugin(t, "nadra-novf", `[ "$CNI_COMMAND" = DEL ] && exit 0; echo '{"cniVersion":"1.0.0","code":100,"msg":"no free virtual function"}'; exit 1`)
	f.nad("blue", strings.NewReplacer("br-bad", "br-insp", "10.66.", "10.83.").Replace(goodConf))
	f.nad("fails", plugin("nadra-novf"))
	f.nad("far", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan-of-others","ipam":{}}`)
	f.Must(f.Published(f.Ctx, "inspect/blue", "inspect/fails"))

	watched, stop := f.watchAttachments()
	f.start("web", lab.Want{Network: "blue", Config: map[string]any{"interface": "data0"}}, lab.Want{Network: "blue"})
	f.createAnnotated("old", "blue")
	f.createOfClass("typo", "blu.inspect.nad.nadra.dev")
	for name, network := range map[string]string{"novf": "fails", "remote": "far"} {
		_, err := f.Create(f.Ctx, f.NS, name, lab.Want{Network: network})
		f.Must(err)
	}

	const code = string(reason.PluginFailed)
	failed := "(" + code + ".*no free virtual function|no free virtual function.*" + code + ")"
	// Without the status of devices, the address is network-status', and only Events have failures.
	prefix, failedRow := `/24`, ` Failed .*`+failed
	on, err := storesDeviceStatus()
	f.Must(err)
	if !on {
		prefix, failedRow = ``, ` Preparing `
	}
	row := regexp.MustCompile(`(?m)^web +data0 +inspect/blue +Attached +10\.83\.0\.\d+` + prefix + ` +` + f.node.Name() + `\s*$`)
	f.Eventually(2*time.Minute, func(context.Context) error { return matches(row, watched.String()) })
	f.Eventually(time.Minute, f.printing(cli.CodeOK, row, "get", "attachments", "--nad", "blue"))
	offered := regexp.MustCompile(`(?m)^blue +bridge +host-local +- +1 +\S+ +blue\.inspect\.nad\.nadra\.dev +` + f.node.Name() + `\b`)
	f.Eventually(time.Minute, f.printing(cli.CodeOK, offered, "get", "networks", "blue", "-o", "wide"))
	f.Eventually(time.Minute, f.printing(cli.CodeOK, regexp.MustCompile(`(?m)^novf .*`+failedRow), "get", "att", "-o", "wide"))
	for pod, want := range map[string]struct {
		parts string
		owner reason.Owner
	}{
		"typo":   {`definition .*inspect/blu\b.*` + string(reason.NetworkNotFound), reason.OfManifest},
		"remote": {`nodes .*` + f.node.Name(), reason.OfNode},
		"novf":   {`attachment .*` + failed, reason.OfPlugin},
		"old":    {`claim .*`, reason.OfConversion},
	} {
		f.Eventually(time.Minute, f.printing(cli.CodeBlockers, regexp.MustCompile(`(?s)FAILED +`+want.parts+`.*`+regexp.QuoteMeta(string(want.owner))), "explain", "pod/"+pod))
	}
	f.Must(f.printing(cli.CodeOK, regexp.MustCompile(`10\.83\.0\.`), "explain", "pod", "web")(f.Ctx))
	f.Must(f.printing(cli.CodeOK, regexp.MustCompile(`"kind": "PodChain"(?s).*"verdict": "ok"`), "explain", "pod/web", "-o", "json")(f.Ctx))

	for _, args := range [][]string{{"get", "attachments"}, {"get", "attachments", "-o", "wide"}, {"explain", "pod/web"}, {"explain", "pod/novf"}, {"explain", "pod/remote"}} {
		_, out, err := f.cli(f.Ctx, args...)
		f.Must(err)
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		if example := strings.Join(args, " "); on && (example == "get attachments" || example == "explain pod/novf") {
			f.Must(documented(example, out))
		}
	}

	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	gone := regexp.MustCompile(`(?m)^web +data0 +inspect/blue +Gone`)
	f.Eventually(2*time.Minute, func(context.Context) error { return matches(gone, watched.String()) })
	if code := stop(); code != cli.CodeOK {
		t.Errorf("the watch ends with %d", code)
	}
	f.Must(f.printing(cli.CodeError, regexp.MustCompile(`pods "web" not found`), "explain", "pod/web")(f.Ctx))
	t.Logf("get attachments -w\n%s", watched)
}

// watchAttachments runs the command until stop, which interrupts it and returns
// its exit code.
func (f *fixture) watchAttachments() (out *safeBuffer, stop func() int) {
	ctx, interrupt := context.WithCancel(f.Ctx)
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

// command returns a command of kubectl-nadra in the test's namespace. It runs on the node,
// which can reach the cluster.
func (f *fixture) command(ctx context.Context, args ...string) *exec.Cmd {
	binary := lab.Built("kubectl-nadra")
	return f.node.Command(ctx, binary, append(args, "--kubeconfig", f.Cluster.Kubeconfig(), "-n", f.NS)...)
}

// cli runs a command of kubectl-nadra and returns its exit code and output.
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

// printing returns a check that succeeds when a command ends with the code and its output
// matches.
func (f *fixture) printing(code int, want *regexp.Regexp, args ...string) func(context.Context) error {
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

// createAnnotated creates a pod as users of Multus write it.
func (f *fixture) createAnnotated(name, networks string) {
	f.Helper()
	pod := lab.Pod(f.NS, name, "")
	pod.Annotations = map[string]string{attachment.NetworksAnnotation: networks}
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	f.create(pod)
}

// createOfClass creates a pod with a claim for a class.
func (f *fixture) createOfClass(name, class string) {
	f.Helper()
	template := lab.Template(f.NS, name, lab.Want{Network: "any"})
	exactly := template.Spec.Spec.Devices.Requests[0].Exactly
	exactly.DeviceClassName, exactly.Selectors = class, nil
	template.Spec.Spec.Devices.Config = nil
	f.Must(f.CreateTemplate(f.Ctx, template))
	f.create(lab.Pod(f.NS, name, name))
}

func (f *fixture) create(pod *corev1.Pod) {
	f.Helper()
	_, err := f.Kube.CoreV1().Pods(f.NS).Create(f.Ctx, pod, metav1.CreateOptions{})
	f.Must(err)
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
