//go:build e2e

package bare

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	caseLimit = 5 * time.Minute
	waitLimit = 90 * time.Second
)

// fixture is a case with a namespace of its own.
type fixture struct {
	lab.Fixture
	before lab.Snapshot
}

func setup(t *testing.T, namespace string) *fixture {
	t.Helper()
	cases++
	ctx, cancel := context.WithTimeout(interrupted, caseLimit)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}}
	f.Must(f.CreateNamespace(ctx, namespace))
	f.Must(f.CreateNAD(ctx, namespace, "lan", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0","ipam":{"type":"host-local","subnet":"10.89.0.0/24"}}`))
	f.Must(f.CreateNAD(ctx, namespace, "one", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0","ipam":{"type":"fixed","addresses":[{"address":"10.90.0.7/24"}]}}`))
	f.Must(f.Published(ctx, namespace+"/lan", namespace+"/one"))
	var err error
	f.before, err = lab.TakeSnapshot(f.node())
	f.Must(err)
	t.Cleanup(f.cleanUp)
	return f
}

func (f *fixture) node() *cluster.Node { return f.Cluster.Node(1) }

// cleanUp deletes the case's pods, and counts what is left.
func (f *fixture) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Ctx), waitLimit)
	defer cancel()
	f.Ctx = ctx
	if f.Failed() {
		f.Log(f.Kubectl("get", "pods,resourceclaims,events", "-A", "-o", "wide"), f.DriverLog(ctx))
	}
	f.Kubectl("delete", "pods", "--all", "--timeout=60s")
	if err := lab.NothingAdded(ctx, f.node(), f.before); err != nil {
		left++
		f.Error(err)
	}
	f.Kubectl("delete", "namespace", f.NS, "--wait=false")
	if !f.Failed() {
		passed++
	}
}

// has creates a pod with a network, checks its address, and that explain names the files that ran: paths of the node
// with the content of files.
func (f *fixture) has(pod, network, address string, files map[string]string) {
	f.Helper()
	if _, err := f.Create(f.Ctx, f.NS, pod, lab.Want{Network: network}); err != nil {
		f.Fatal(err)
	}
	if _, err := f.Ready(f.Ctx, f.NS, pod, waitLimit); err != nil {
		f.Fatal(err)
	}
	if out, err := f.Exec(f.Ctx, f.NS, pod, "ip", "addr", "show", "net1"); err != nil || !strings.Contains(out, address) {
		f.Errorf("net1 of pod %s (%v), want %s:\n%s", pod, err, address, out)
	}
	f.Eventually(waitLimit, func(ctx context.Context) error {
		out, err := f.Nadra(ctx, "--kubeconfig", f.Cluster.Kubeconfig(), "-n", f.NS, "explain", "pod/"+pod)
		if err != nil {
			return err
		}
		for path, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			dir, name := filepath.Split(path)
			of, digest := fmt.Sprintf("/%s@sha256:", name), fmt.Sprintf("%x", sha256.Sum256(content))
			if !strings.Contains(out.Out, dir) || !strings.Contains(out.Out, of+digest) {
				return fmt.Errorf("explain lacks %s…%s%s:\n%s%s", dir, of, digest, out.Out, out.Err)
			}
		}
		return nil
	})
}

// copies lists the directory of an image's copies on the node.
func (f *fixture) copies(image string) []string {
	f.Helper()
	out, err := f.node().Exec(f.Ctx, "ls", f.node().Layout().State+"/images/"+image)
	f.Must(err)
	return strings.Fields(string(out))
}

// TestPluginsOfImages attaches networks on the bare node: by the plugins of the released image, and by an IPAM plugin of
// another image that macvlan finds there. Then the DaemonSet gets another version of the image: pods stay as they are,
// new pods get the new plugins, and the new plugins delete what the old ones have made.
func TestPluginsOfImages(t *testing.T) {
	f := setup(t, "images")
	if out, err := f.node().Exec(f.Ctx, "sh", "-c", "ls /opt/cni/bin/macvlan || touch /opt/cni"); err == nil {
		t.Fatalf("the node has plugins, or a root that can be written: %s", out)
	}
	state := f.node().Layout().State + "/images/"
	programs := lab.Built("cni-plugins")
	f.has("old", "lan", "10.89.0.", map[string]string{state + "reference/macvlan": programs + "/macvlan", state + "reference/host-local": programs + "/host-local"})
	f.has("foreign", "one", "10.90.0.7/24", map[string]string{state + "reference/macvlan": programs + "/macvlan", state + "more/fixed": programs + "/static"})
	out, err := f.Nadra(f.Ctx, "--kubeconfig", f.Cluster.Kubeconfig(), "doctor", "--probe", "-o", "table")
	if err != nil || !regexp.MustCompile(`cni-plugins +ok +node-1 +has the \d plugins`).MatchString(out.Out) {
		t.Errorf("doctor does not find the plugins of images: %v\n%s%s", err, out.Out, out.Err)
	}
	first := f.copies("reference")

	f.Must(f.patchImage(next))
	if second := f.copies("reference"); len(second) != 2 || strings.Join(second, " ") == strings.Join(first, " ") {
		t.Errorf("copies before the update %q, after it %q", first, second)
	}
	if out, err := f.Exec(f.Ctx, f.NS, "old", "ip", "addr", "show", "net1"); err != nil || !strings.Contains(out, "10.89.0.") {
		t.Errorf("the update has changed a pod: %v\n%s", err, out)
	}
	f.has("new", "lan", "10.89.0.", map[string]string{state + "reference/macvlan": nextPrograms + "/macvlan"})
	f.deletesWithTheNextDriver("old")
}

// deletesWithTheNextDriver deletes a pod while no driver runs. The next one runs its DELs.
func (f *fixture) deletesWithTheNextDriver(pod string) {
	f.Helper()
	f.Kubectl("-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", `[{"op":"add","path":"/spec/template/spec/nodeSelector","value":{"nobody":"here"}}]`)
	f.Kubectl("-n", "nadra", "wait", "--for=delete", "pods", "--all", "--timeout=60s")
	f.Kubectl("delete", "pod", pod, "--wait=false")
	f.Must(patch(f.Ctx, f.Cluster, `[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]`))
	f.Kubectl("wait", "--for=delete", "pod/"+pod, "--timeout=90s")
}

// patchImage changes the image of the volume of the component cni-plugins.
func (f *fixture) patchImage(image string) error {
	return patch(f.Ctx, f.Cluster, fmt.Sprintf(
		`[{op: test, path: /spec/template/spec/volumes/7/name, value: cni-image-reference}, {op: replace, path: /spec/template/spec/volumes/7/image/reference, value: %q}]`, image))
}

// TestOrderOfSearch gives the host's plugins before and after the image's: the first that has the plugin runs it.
func TestOrderOfSearch(t *testing.T) {
	f := setup(t, "order")
	host := f.node().Layout().CNIPrograms
	for pod, order := range map[string][2]string{"host-first": {host + ",image:reference,image:more", host + "/"}, "image-first": {"image:reference,image:more," + host, "/images/reference/"}} {
		remove, err := lab.AddDriverArgs(f.Ctx, f.Lab, "--cni-bin-dirs="+order[0])
		f.Must(err)
		f.has(pod, "lan", "10.89.0.", nil)
		out, err := f.Nadra(f.Ctx, "--kubeconfig", f.Cluster.Kubeconfig(), "-n", f.NS, "explain", "pod/"+pod)
		if err != nil || !strings.Contains(out.Out, order[1]) {
			t.Errorf("with %s, explain lacks %s (%v):\n%s", order[0], order[1], err, out.Out)
		}
		f.Must(remove(f.Ctx))
	}
}
