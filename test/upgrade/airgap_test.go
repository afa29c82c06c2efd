//go:build e2e

package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// airGapPage has the commands of TestAirGap.
var airGapPage = filepath.Join(lab.Root(), "docs", "install", "air-gap.md")

// machine is a computer on which a test runs commands.
type machine interface {
	Command(ctx context.Context, name string, args ...string) *exec.Cmd
	Run(cmd *exec.Cmd) error
	Exec(ctx context.Context, name string, args ...string) ([]byte, error)
}

// airGap is a cluster that moves from the files of a release alone.
type airGap struct {
	*fixture
	// carried is the folder of the carried files.
	carried string
	// machines are the administrator's and the nodes, by their names.
	machines map[string]machine
}

// TestAirGap moves a cluster that has no route to outside by the commands of docs/install/air-gap.md,
// which see only the files of a release. The commands print what the page says, the pods keep
// running, no image is pulled, and no packet leaves for an address without a route.
func TestAirGap(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
	a := &airGap{f, f.dir, map[string]machine{"the administrator's machine": f.Cluster.ControlPlane()}}
	for _, n := range f.Cluster.Nodes() {
		a.machines[n.Name()] = n
	}
	a.carry()
	// Networks that other tests have left may need the default route, as macvlan without a master does.
	f.Kubectl("delete", "network-attachment-definitions", "--all-namespaces", "--all")
	a.cutOff()
	f.Must(f.Apply(ctx, stack))
	f.areReady(ofStack)
	pods := f.running()
	before := f.observed(pods)
	a.hasNoRoute(&pods[0])

	attempts := a.attempts()
	steps, printed := a.followPage()
	if diff := cmp.Diff(before, f.observed(f.running())); diff != "" {
		t.Errorf("the pods after the move (-before +now):\n%s", diff)
	}
	a.replaceOne()
	outside := 0
	for name, n := range a.attempts() {
		outside += n - attempts[name]
	}
	pulls := a.pulls()
	fmt.Printf("upgrade-lane: air-gap=%d steps, pods=%d packets-outside=%d pulls=%d\n", steps, len(pods), outside, pulls)
	if outside > 0 || pulls > 0 {
		t.Errorf("%d packets were sent to addresses without a route, want 0 more than %v: %v; %d pulls of images, want 0", outside, attempts, a.attempts(), pulls)
	}
	a.comparePage(printed)

	f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.Kubectl("label", "nodes", "--all", "nadra.dev/owner-")
	f.nadra("uninstall", "--yes")
	f.Must(f.InstallMultus(ctx, nil))
}

// carry copies the files of the release, and the public key of its tree, to where all machines see them.
func (a *airGap) carry() {
	a.Helper()
	release := filepath.Join(lab.Root(), "bin", "airgap")
	a.Must(os.CopyFS(a.carried, os.DirFS(filepath.Join(release, "dist"))))
	key, err := os.ReadFile(filepath.Join(release, "source", "cosign.pub"))
	a.Must(err)
	a.file("cosign.pub", string(key))
}

// block matches a block of commands of the page, and that of their output.
var block = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```\n\n *```text\n(.*?)^ *```\n")

// followPage runs all commands of the page, and returns their number of blocks, and the page with what they
// have printed.
func (a *airGap) followPage() (steps int, printed string) {
	a.Helper()
	text, err := os.ReadFile(airGapPage)
	a.Must(err)
	var out strings.Builder
	rest := 0
	for _, at := range block.FindAllSubmatchIndex(text, -1) {
		indent, script := string(text[at[2]:at[3]]), string(text[at[4]:at[5]])
		steps++
		a.refuses(script)
		output := a.run(script)
		out.Write(text[rest:at[6]])
		for line := range strings.Lines(output) {
			out.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
		}
		rest = at[7]
	}
	out.Write(text[rest:])
	if steps < 9 {
		a.Fatalf("%s has %d blocks of commands", airGapPage, steps)
	}
	return steps, out.String()
}

// refuses checks that commands which check a file fail while the file has another byte.
func (a *airGap) refuses(script string) {
	a.Helper()
	for program, file := range map[string]string{"openssl dgst": "SHA256SUMS", "sha256sum": "nadra-drop-in.yaml"} {
		if !strings.Contains(script, program) {
			continue
		}
		path := filepath.Join(a.carried, file)
		content, err := os.ReadFile(path)
		a.Must(err)
		a.Must(os.WriteFile(path, append([]byte("#"), content[1:]...), 0o644))
		cmd := exec.CommandContext(a.Ctx, "sh", "-ec", script)
		cmd.Dir = a.carried
		if out, err := cmd.CombinedOutput(); err == nil {
			a.Errorf("%s accepts a changed %s:\n%s", program, file, out)
		}
		a.Must(os.WriteFile(path, content, 0o644))
	}
}

// run runs a block of commands in the folder of the carried files, on the administrator's machine, or on all
// nodes if it is for the container runtime. It returns what the first machine has printed.
func (a *airGap) run(script string) (printed string) {
	a.Helper()
	on := []machine{a.Cluster.ControlPlane()}
	if strings.Contains(script, "ctr ") {
		on = nil
		for _, n := range a.Cluster.Nodes() {
			on = append(on, n)
		}
	}
	for i, m := range on {
		cmd := m.Command(a.Ctx, "sh", "-ec", `PATH="$PWD:$PATH"; `+script)
		var out bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = a.carried, &out, &out
		cmd.Env = append(cmd.Env, "KUBECONFIG="+a.Cluster.Kubeconfig())
		began := time.Now()
		err := m.Run(cmd)
		a.Logf("%s(%s)\n%s", script, time.Since(began).Round(time.Second), out.String())
		if err != nil {
			a.Fatalf("%v:\n%s%s", err, script, out.String())
		}
		if i == 0 {
			printed = progress.ReplaceAllString(out.String(), "")
		}
	}
	return printed
}

// replaceOne restarts a workload, whose new pods nadra attaches.
func (a *airGap) replaceOne() {
	a.Helper()
	a.Kubectl("-n", namespace, "rollout", "restart", "deployment/smf")
	a.Kubectl("-n", namespace, "rollout", "status", "deployment/smf", "--timeout=60s")
	if claims := a.Kubectl("-n", namespace, "get", "resourceclaims", "-o", "name"); strings.TrimSpace(claims) == "" {
		a.Errorf("the new pods of smf have no claims: nadra does not serve them")
	}
}

// pulls returns the number of images that the kubelets pulled or missed, by their Events, and checks that the
// containers of nadra were started from images of the release.
func (a *airGap) pulls() int {
	a.Helper()
	pulls, present := 0, 0
	for _, ns := range []string{"nadra", "nadra-system", "kube-system", namespace} {
		events, err := a.Kube.CoreV1().Events(ns).List(a.Ctx, metav1.ListOptions{})
		a.Must(err)
		for _, e := range events.Items {
			switch {
			case e.InvolvedObject.Kind != "Pod":
			case e.Reason == "Pulling", strings.Contains(e.Reason, "Image"):
				a.Errorf("pod %s/%s: %s: %s", ns, e.InvolvedObject.Name, e.Reason, e.Message)
				pulls++
			case e.Reason == "Pulled" && strings.Contains(e.Message, "ghcr.io/nadra-dev/") && strings.Contains(e.Message, "already present"):
				present++
			}
		}
	}
	if present < 4 { // two drivers and two controllers
		a.Errorf("%d containers were started from images of the release, want 4 and more", present)
	}
	return pulls
}

// progress matches lines that differ in each run: of rollouts, of upgrade, and of ctr, whose warning is about
// the build machine.
var progress = regexp.MustCompile(`(?m)^(Waiting for|Probing|Reading|time=|application/vnd|.*\tsaved|.*\telapsed:).*\n`)

// unsteady has what differs in each run of the page's commands, besides varying.
var unsteady = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(?m)^( *\| node-)[12] \| .* \|$`), "$1 PODS"}, // where the scheduler has put them
	{regexp.MustCompile(`(?m)^( *wave-[12]  node-)[12]`), "$1"},
	{regexp.MustCompile(`the oldest is \d+ minutes? old`), "the oldest is old"},
}

// comparePage compares the page with what its commands have printed, except for what differs in each run.
func (a *airGap) comparePage(printed string) {
	a.Helper()
	if *update {
		a.Must(os.WriteFile(airGapPage, []byte(printed), 0o644))
		return
	}
	was, err := os.ReadFile(airGapPage)
	a.Must(err)
	plain := func(text string) string {
		for _, u := range unsteady {
			text = u.what.ReplaceAllString(text, u.as)
		}
		return steady(text)
	}
	if diff := cmp.Diff(plain(string(was)), plain(printed)); diff != "" {
		a.Errorf("docs/install/air-gap.md differs from what its commands print (-page +printed); write it with -args -update:\n%s", diff)
	}
}
