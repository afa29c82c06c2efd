//go:build e2e

package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// fixture is a scenario: a namespace with networks and pods, which must leave the guest
// unchanged.
type fixture struct {
	*Lane
	testing.TB
	ctx    context.Context
	ns     string
	before state
	undo   []string
}

// podLimit is how long a pod may take to become Ready, on an emulated machine and a host
// that may be busy.
const podLimit = 6 * time.Minute

// leftoverLimit is how long leftovers of a pod may stay: the driver retries a failed DEL
// after half a minute, and after a minute.
const leftoverLimit = 4 * time.Minute

// preparation has the script of an administrator before a scenario, and the script that
// undoes it.
type preparation struct{ do, undo string }

// scenario prepares the guest and creates a namespace. The caller ends it with
// leavesNothing, in a case of its own.
func scenario(t testing.TB, namespace string, preparations ...preparation) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, 25*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{Lane: theLane, TB: t, ctx: ctx, ns: namespace}
	for _, p := range preparations {
		f.undo = append(f.undo, p.undo)
		f.shell("set -e\n" + p.do)
	}
	before, err := f.guestState()
	f.must(err)
	f.before = before
	f.must(f.CreateNamespace(ctx, namespace))
	t.Cleanup(f.cleanUp)
	return f
}

// leavesNothing deletes the pods and checks that the guest is as before: every interface
// has its name and hardware address again, every RDMA device is back, and there are no more
// files.
func (f *fixture) leavesNothing(t *testing.T) {
	if err := f.deletePods(); err != nil {
		t.Fatalf("deleting the pods: %v", err)
	}
	f.isAsBefore(t)
}

// deletePods deletes the scenario's pods and waits until they are gone.
func (f *fixture) deletePods() error {
	pods := f.Kube.CoreV1().Pods(f.ns)
	if err := pods.DeleteCollection(f.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are left, pod %s for one", len(left.Items), left.Items[0].Name)
		}
		return err
	})
}

// isAsBefore waits until the guest is as before the scenario, with more lines added to its
// state.
func (f *fixture) isAsBefore(t *testing.T, more ...string) {
	t.Helper()
	err := lab.Eventually(f.ctx, leftoverLimit, func(context.Context) error {
		now, err := f.guestState()
		if err != nil {
			return err
		}
		return append(slices.Clone(f.before), more...).compare(now)
	})
	if err != nil {
		t.Error(err)
	}
}

func (f *fixture) cleanUp() {
	if err := f.deletePods(); err != nil {
		f.Errorf("deleting the scenario's pods: %v", err)
	}
	err := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.ns).DeleteCollection(f.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		f.Errorf("deleting the scenario's NADs: %v", err)
	}
	for _, script := range slices.Backward(f.undo) {
		f.shell(script)
	}
	if err := f.Kube.CoreV1().Namespaces().Delete(f.ctx, f.ns, metav1.DeleteOptions{}); err != nil {
		f.Errorf("deleting the scenario's namespace: %v", err)
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// shell runs a script in the guest.
func (f *fixture) shell(script string) string {
	f.Helper()
	out, err := f.Guest.Shell(f.ctx, script)
	f.must(err)
	return out
}

type object = map[string]any

// static returns the IPAM configuration of fixed addresses.
func static(addresses ...string) object {
	list := []object{}
	for _, address := range addresses {
		list = append(list, object{"address": address})
	}
	return object{"type": "static", "addresses": list}
}

// nad creates a NAD with one or more plugins.
func (f *fixture) nad(name string, plugins ...object) {
	f.Helper()
	config, err := json.Marshal(object{"cniVersion": "1.0.0", "name": name, "plugins": plugins})
	f.must(err)
	f.must(f.CreateNAD(f.ctx, f.ns, name, string(config)))
}

// create creates a pod with these networks, in order. An interface is named
// after its network.
func (f *fixture) create(pod string, networks ...string) {
	f.Helper()
	var wants []lab.Want
	for _, network := range networks {
		wants = append(wants, lab.Want{Network: network, Config: object{"interface": network}})
	}
	f.createWith(pod, wants...)
}

// createWith creates a pod with networks that it requests in detail.
func (f *fixture) createWith(pod string, wants ...lab.Want) {
	f.Helper()
	f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, pod, wants...)))
	f.start(lab.Pod(f.ns, pod, pod))
}

// start creates a pod without a service account's token, because mounting one takes the
// guest a second.
func (f *fixture) start(pod *corev1.Pod) {
	f.Helper()
	pod.Spec.AutomountServiceAccountToken, pod.Spec.EnableServiceLinks = ptr.To(false), ptr.To(false)
	_, err := f.CreatePod(f.ctx, pod)
	f.must(err)
}

// ready waits for a pod and returns it with what is in its network namespace.
func (f *fixture) ready(name string) (*corev1.Pod, wire.Net) {
	f.Helper()
	pod, err := f.Ready(f.ctx, f.ns, name, podLimit)
	f.must(err)
	// Several interfaces of a pod are on one segment, and only the interface with an
	// address may answer ARP for it.
	_, err = f.Guest.RunInPod(f.ctx, pod, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore")
	f.must(err)
	seen, err := f.Guest.PodNet(f.ctx, pod)
	f.must(err)
	return pod, seen
}

// ping fails the test unless an address answers over one of a pod's interfaces. After its
// card was down, a virtual function takes some seconds to detect its link.
func (f *fixture) ping(t *testing.T, pod *corev1.Pod, link, address string) {
	t.Helper()
	err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		_, err := f.Guest.RunInPod(ctx, pod, "ping", "-I", link, "-c", "1", "-W", "2", address)
		return err
	})
	if err != nil {
		seen, _ := f.Guest.PodNet(f.ctx, pod)
		counters, _ := f.Guest.RunInPod(f.ctx, pod, "cat", "/proc/net/dev", "/proc/net/arp")
		t.Errorf("pinging %s from %s over %s: %v\nin the pod: %+v\n%s", address, pod.Name, link, err, seen, counters)
	}
}

// requireLink returns an interface of a pod, and fails the test unless it is up and has an
// address.
func requireLink(t *testing.T, seen wire.Net, name, kind, address string) wire.Link {
	t.Helper()
	link := seen.Link(name)
	if link == nil {
		t.Fatalf("the pod has no interface %s: %+v", name, seen.Links)
	}
	if link.Kind != kind || !link.Up {
		t.Errorf("%s is %q, up: %t; it is to be %q and up", name, link.Kind, link.Up, kind)
	}
	if address != "" && !slices.Contains(link.Addresses, address) {
		t.Errorf("%s has addresses %v, without %s", name, link.Addresses, address)
	}
	return *link
}

// state has a line for everything in the guest that attachments change.
type state []string

// leftovers lists files that only existing attachments may have.
const leftovers = `find /run/netns /var/lib/cni/networks /var/lib/cni/rdma /var/lib/cni/sriov /var/lib/nadra/cni/results /var/lib/nadra/claims /var/lib/nadra/pending-dels /run/cdi \
	-type f ! -name lock ! -path '*/vf_lock/*' ! -name 'last_reserved_ip.*' 2>/dev/null || true`

func (f *fixture) guestState() (state, error) {
	seen, err := f.Guest.Net(f.ctx)
	if err != nil {
		return nil, err
	}
	var s state
	for _, link := range seen.Links {
		// The default network's bridge comes with the first pod.
		if link.Name != "cni0" {
			s = append(s, fmt.Sprintf("interface %s (%s %s %s)", link.Name, link.Kind, link.MAC, link.Bus))
		}
		for _, vf := range link.VFs {
			s = append(s, fmt.Sprintf("what %s has set: %+v", link.Name, vf))
		}
	}
	for _, device := range seen.RDMA {
		s = append(s, "RDMA device "+device)
	}
	files, err := f.Guest.Shell(f.ctx, leftovers)
	for file := range strings.FieldsSeq(files) {
		s = append(s, "file "+file)
	}
	slices.Sort(s)
	return s, err
}

// compare returns an error that lists the added and missing lines.
func (s state) compare(now state) error {
	var differences []string
	for _, line := range now {
		if !slices.Contains(s, line) {
			differences = append(differences, "left over: "+line)
		}
	}
	for _, line := range s {
		if !slices.Contains(now, line) {
			differences = append(differences, "missing: "+line)
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("the guest is not as before:\n  %s", strings.Join(differences, "\n  "))
	}
	return nil
}
