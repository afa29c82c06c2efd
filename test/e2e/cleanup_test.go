//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	leftConf = `{"cniVersion":"1.0.0","name":"left","type":"macvlan","master":"lan-left","mode":"bridge","ipam":{"type":"host-local","subnet":"10.88.0.0/24"}}`
	leases   = "/var/lib/cni/networks/left/"
	// leftPool is the CRD of whereabouts' pools. leftPoolObject has an address of a pod
	// that is gone, and addresses of a running pod.
	leftPool = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.whereabouts.cni.cncf.io}
spec:
  group: whereabouts.cni.cncf.io
  names: {kind: IPPool, plural: ippools}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
	leftPoolObject = `apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {name: 10.89.0.0-24, namespace: kube-system}
spec:
  range: 10.89.0.0/24
  allocations:
    "7": {id: %[1]s, podref: left/gone, ifname: net1}
    "8": {id: %[1]s, podref: left/web, ifname: net1}
    "9": {id: %[2]s, podref: left/forced, ifname: net1}
`
)

// id returns the ID of a sandbox that no runtime has.
func id(digit string) string { return strings.Repeat(digit, 64) }

// TestCleanup lists the leftovers of sandboxes that are gone, by kind and place, and frees
// them with --apply. It must keep the resources of a running pod, which ends as any other.
func TestCleanup(t *testing.T) {
	f := &leftovers{setup(t, "left")}
	f.master("lan-left")
	f.nad("left", leftConf)
	f.Must(f.Published(f.Ctx, "left/left"))
	web := f.start("web", lab.Want{Network: "left"})
	mine := f.address(web)
	f.litter(f.sandbox(mine))
	before := f.disk()

	found := f.cleanup(cli.CodeOK)
	for object, action := range map[string]probe.Action{
		leases + "10.88.0.200":                                  probe.ActionRelease,
		leases + "10.88.0.201":                                  probe.ActionRelease,
		"/var/lib/cni/networks/default/10.99.99.99":             probe.ActionNone,
		"/var/lib/cni/multus/results/left-" + id("b") + "-net1": probe.ActionDEL,
		"/var/lib/cni/multus/" + id("b"):                        probe.ActionDelete,
		"kube-system/10.89.0.0-24#7":                            probe.ActionRelease,
	} {
		f.Must(hasOrphan(found, object, action))
	}
	for _, object := range []string{ // young, of an existing sandbox, and of existing pods
		leases + "10.88.0.202", leases + "10.88.0.203", leases + mine,
		"kube-system/10.89.0.0-24#8", "kube-system/10.89.0.0-24#9", "left/nadra-left-0123456789",
	} {
		if slices.ContainsFunc(found.Orphans, func(o probe.Orphan) bool { return o.Object == object }) {
			f.Errorf("%s is listed as an orphan", object)
		}
	}
	table, _ := f.nadra(cli.CodeWarnings, "cleanup", "--fail-on=warning")
	f.Must(matches(regexp.MustCompile(`(?m)^node-1 +host-local +/var/lib/cni/networks/left/10.88.0.200 +10.88.0.200 +- +release `), table))
	f.Must(documented("cleanup", strings.ReplaceAll(table, id("b"), id("b")[:12]+"…"))) // as on a terminal
	f.cleanup(cli.CodeError, "--apply")                                                 // nobody can confirm
	if now := f.disk(); now != before {
		f.Errorf("looking has changed the node:\n%s\nwas\n%s", now, before)
	}
	outside := f.cleanup(cli.CodeOK, "--probe=false")
	f.Must(hasOrphan(outside, "kube-system/10.89.0.0-24#7", probe.ActionNone))

	// Including young leftovers.
	freed := f.cleanup(cli.CodeOK, "--apply", "--yes", "--older-than=0s")
	f.Must(hasOrphan(freed, leases+"10.88.0.202", probe.ActionRelease))
	f.Must(hasOrphan(freed, "left/nadra-left-0123456789", probe.ActionDelete))
	for _, o := range freed.Orphans {
		if o.Done != (o.Action != probe.ActionNone) || o.Error != "" {
			f.Errorf("not freed: %+v", o)
		}
	}
	f.Must(f.onlyLeft(mine))
	if _, err := f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).Get(f.Ctx, "nadra-left-0123456789", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		f.Errorf("the template: %v", err)
	}
	given := f.Kubectl("-n", "kube-system", "get", "ippool", "10.89.0.0-24", "-o", "jsonpath={.spec.allocations}")
	if strings.Contains(given, `"7"`) || !strings.Contains(given, `"8"`) || !strings.Contains(given, `"9"`) {
		f.Errorf("whereabouts' allocations are %s", given)
	}
	for _, o := range f.cleanup(cli.CodeOK, "--older-than=0s").Orphans {
		if o.Action != probe.ActionNone {
			f.Errorf("afterwards there is %+v", o)
		}
	}

	f.refusesToUninstall()
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}

// leftovers is the fixture of TestCleanup.
type leftovers struct{ *fixture }

// address returns the pod's address on the network.
func (f *leftovers) address(pod *corev1.Pod) string {
	f.Helper()
	status, err := f.NetworkStatus(f.Ctx, pod.Namespace, pod.Name)
	f.Must(err)
	return status[len(status)-1].IPs[0]
}

// sandbox returns the ID of the sandbox that has an address.
func (f *leftovers) sandbox(address string) string {
	return strings.TrimSpace(strings.SplitN(f.sh("cat "+leases+address), "\n", 2)[0])
}

// litter creates leftovers as nodes and clusters gather them over time. live is the sandbox
// of a running pod.
func (f *leftovers) litter(live string) {
	f.Helper()
	lease := func(path, sandbox, age string) {
		f.sh(fmt.Sprintf(`mkdir -p %s && printf '%s\r\nnet1' > %s && touch -d '%s' %s`, filepath.Dir(path), sandbox, path, age, path))
		f.undo = append(f.undo, "rm -f "+path)
	}
	lease(leases+"10.88.0.200", id("a"), "1 hour ago")
	lease(leases+"10.88.0.201", id("b"), "1 hour ago")
	lease(leases+"10.88.0.202", id("c"), "now")
	lease(leases+"10.88.0.203", live, "1 hour ago") // of an existing sandbox
	lease("/var/lib/cni/networks/default/10.99.99.99", id("d"), "1 hour ago")

	conflist := `{"cniVersion":"1.0.0","name":"left","plugins":[{"type":"macvlan","master":"lan-left","mode":"bridge","ipam":{"type":"host-local","subnet":"10.88.0.0/24"}}]}`
	cached, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": id("b"), "config": base64.StdEncoding.EncodeToString([]byte(conflist)), "ifName": "net1", "networkName": "left",
		"netns": "/run/netns/gone", "cniArgs": [][2]string{{"IgnoreUnknown", "true"}, {"K8S_POD_NAMESPACE", "left"}, {"K8S_POD_NAME", "gone"}},
	})
	f.Must(err)
	for path, content := range map[string]string{
		"/var/lib/cni/multus/results/left-" + id("b") + "-net1": string(cached),
		"/var/lib/cni/multus/" + id("b"):                        "[]",
	} {
		f.Must(lab.WriteHostFile(f.node, path, []byte(content), 0o600))
		f.sh("touch -d '1 hour ago' " + path)
	}
	f.undo = append(f.undo, "rm -rf /var/lib/cni/multus", "rmdir /var/lib/cni/networks/default 2>/dev/null || true")

	template := lab.Template(f.NS, "nadra-left-0123456789", lab.Want{Network: "left"})
	template.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	f.Must(f.CreateTemplate(f.Ctx, template))

	f.Must(f.Apply(f.Ctx, leftPool))
	f.Cleanup(func() { f.Kubectl("delete", "crd", "ippools.whereabouts.cni.cncf.io") })
	f.Must(lab.WaitEstablished(f.Ctx, f.Cluster, "ippools.whereabouts.cni.cncf.io"))
	f.Must(f.Apply(f.Ctx, fmt.Sprintf(leftPoolObject, id("a"), live)))
}

// disk returns the checksums of the node's files in which leftovers are.
func (f *leftovers) disk() string {
	return f.sh("find /var/lib/cni -type f -not -name lock -exec md5sum {} + | sort -k2")
}

// onlyLeft checks that the network's only leases are the pod's address and the file with
// it.
func (f *leftovers) onlyLeft(address string) error {
	names := strings.Fields(f.sh("cd " + leases + " && ls | grep '^10[.]'"))
	if len(names) != 2 || !strings.Contains(strings.Join(names, " "), address) {
		return fmt.Errorf("leases are %v, want only that of the pod's %s", names, address)
	}
	return nil
}

// cleanup runs the command with JSON output, checks its exit code and returns the report.
func (f *leftovers) cleanup(code int, args ...string) cleanup.Report {
	f.Helper()
	out, errs := f.nadra(code, append([]string{"cleanup", "-o", "json"}, args...)...)
	var r cleanup.Report
	if code != cli.CodeError {
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			f.Fatalf("%v\n%s%s", err, out, errs)
		}
	}
	f.Must(f.noProbes())
	return r
}

// nadra runs kubectl-nadra, checks its exit code and returns its output.
func (f *leftovers) nadra(code int, args ...string) (out, errs string) {
	f.Helper()
	cmd := f.node.Command(f.Ctx, lab.Built("kubectl-nadra"), append(args, "--kubeconfig", f.Cluster.Kubeconfig())...)
	var stdout, stderr safeBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := f.node.Run(cmd); err != nil && !errors.As(err, new(*exec.ExitError)) {
		f.Fatal(err)
	}
	f.Logf("%s\n%s%s", strings.Join(args, " "), stdout.String(), stderr.String())
	if got := cmd.ProcessState.ExitCode(); got != code {
		f.Fatalf("%v: exit code %d, want %d:\n%s%s", args, got, code, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

func hasOrphan(r cleanup.Report, object string, action probe.Action) error {
	for _, o := range r.Orphans {
		if o.Object == object {
			if o.Action != action {
				return fmt.Errorf("%s: %s (%s), want %s", object, o.Action, o.Why, action)
			}
			return nil
		}
	}
	return fmt.Errorf("%s is not listed: %+v", object, r.Orphans)
}

// refusesToUninstall checks that nadra is not uninstalled while a pod has networks.
func (f *leftovers) refusesToUninstall() {
	f.Helper()
	_, errs := f.nadra(cli.CodeRefused, "uninstall", "--yes")
	f.Must(contains("the refusal", errs, []string{"web", f.node.Name()}))
	f.Must(documented("uninstall", errs))
	f.Must(f.noProbes())
	f.Eventually(2*time.Minute, f.WaitDriver)
}
