//go:build e2e

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// editedPods is the number of pods that are edited. Every other one has a claim.
	editedPods = 6
	// usualEdits is how many edits there are. They come so fast that many are never carried out.
	usualEdits = 1000
	// editEvery is the mean pause between two edits, and editFaultEvery that between two faults.
	editEvery      = 150 * time.Millisecond
	editFaultEvery = 3 * time.Second
)

// editFaults has what fails while pods are edited: everything that ends no sandbox.
var editFaults = []fault{
	{kind: killDriver},
	{kind: killDriver},
	{kind: killDriver},
	{kind: termDriver},
	{kind: killPlugin},
	{kind: killRuntime},
	{kind: restartRuntime},
	{kind: stopAPIServer, length: 2 * time.Second},
	{kind: chaosADD, what: "refuse", length: 2 * time.Second},
	{kind: chaosADD, what: "slow2", length: 2 * time.Second},
	{kind: chaosDEL, what: "again", length: 3 * time.Second},
	{kind: fillDisk, length: 2 * time.Second},
	{kind: writeProtect, length: 2 * time.Second},
}

// editPoints are the fail points that an edit reaches.
var editPoints = []failpoint.Point{
	failpoint.BeforeRecordWrite, failpoint.AfterRecordWrite, failpoint.BeforeRecordDelete, failpoint.AfterRecordDelete,
	failpoint.BeforeAdd, failpoint.AfterAdd, failpoint.BeforeDel, failpoint.AfterDel, failpoint.BeforeStatusWrite, failpoint.AfterStatusWrite,
	failpoint.BeforeSynchronized, failpoint.AfterSynchronized,
}

// TestEditsUnderFaults edits the networks of running pods while driver, runtime, plugins, disk and API
// server fail. In the end every pod has exactly what its annotation says, and deleted pods have
// left nothing.
func TestEditsUnderFaults(t *testing.T) {
	edits, seed := int(number(t, "FAULT_EDITS", usualEdits)), number(t, "FAULT_SEED", rand.Uint64())
	t.Logf("seed %d; again with FAULT_SEED=%d FAULT_EDITS=%d", seed, seed, edits)
	s := setUp(t, "edited", 30*time.Minute)
	_, err := s.Cluster.Kubectl(s.ctx, "label", "namespace", s.ns, "nadra.dev/unclaimed=attach")
	s.must(err)
	latest := map[string][]string{}
	for i := range editedPods {
		name := fmt.Sprintf("edited-%d-0", i) // the checker expects no interface
		latest[name] = []string{"b", "m"}
		pod := lab.Pod(s.ns, name, "b-m")
		pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: strings.Join(latest[name], ",")}
		if i%2 == 0 {
			pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
			pod.Spec.NodeName = s.node.Name()
		}
		_, err := s.CreatePod(s.ctx, pod)
		s.must(err)
	}
	for name := range latest {
		_, err := s.Ready(s.ctx, s.ns, name, 2*time.Minute)
		s.must(err)
	}
	r, injector := rand.New(rand.NewPCG(seed, 1)), newInjector(s)
	ctx, stop := context.WithCancel(s.ctx)
	var failing sync.WaitGroup
	failing.Go(func() {
		r := rand.New(rand.NewPCG(seed, 2))
		for n := 0; pause(ctx, between(r, editFaultEvery/2, 3*editFaultEvery/2)); n++ {
			f := editFaults[r.IntN(len(editFaults))]
			if n%3 == 0 {
				f = fault{kind: failPoint, what: string(editPoints[r.IntN(len(editPoints))])}
			}
			f.pick = r.IntN(1 << 16)
			injector.inject(f)
		}
	})
	for range edits {
		name := fmt.Sprintf("edited-%d-0", r.IntN(editedPods))
		latest[name] = drawNetworks(r)
		s.must(s.edit(name, latest[name]))
		pause(s.ctx, between(r, 0, 2*editEvery))
	}
	stop()
	failing.Wait()
	_ = injector.finish()
	s.note("the last fault was healed")
	stuck := s.follow(latest)
	stuck = append(stuck, s.deleteAll()...)
	leaks := s.leaks(s.ctx, leftoverLimit)
	for _, what := range leaks {
		t.Errorf("left over: %s", what)
	}
	line := fmt.Sprintf("fault-suite: edits=%d pods=%d faults=%d leaks=%d stuck=%d", edits, editedPods, injector.injected, len(leaks), len(stuck))
	lastLines = strings.TrimPrefix(lastLines+"\n"+line, "\n")
}

// drawNetworks draws up to three networks in any order, some with an interface.
func drawNetworks(r *rand.Rand) []string {
	all := []string{"b", "m", "c", "b"}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	networks := all[:r.IntN(len(all))]
	for i := range networks {
		if r.IntN(3) == 0 {
			networks[i] += fmt.Sprintf("@x%d", i+r.IntN(2)*10)
		}
	}
	return networks
}

// edit changes a pod's annotation, however long the API server is away.
func (s *suite) edit(name string, networks []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkAttachmentAnnot: strings.Join(networks, ",")}}})
	if err != nil {
		return err
	}
	return persist(s.ctx, "editing "+name, func(ctx context.Context) error {
		_, err := s.Kube.CoreV1().Pods(s.ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// follow waits until every pod has exactly these networks, and returns those that have not.
func (s *suite) follow(latest map[string][]string) (stuck []string) {
	wrong := map[string]error{}
	_ = lab.Eventually(s.ctx, recovery, func(ctx context.Context) error {
		clear(wrong)
		for name, networks := range latest {
			if err := s.hasNetworks(ctx, name, networks); err != nil {
				wrong[name] = err
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d pods do not have what their annotation says", len(wrong))
		}
		return nil
	})
	for name, why := range wrong {
		s.t.Errorf("pod %s: %v", name, why)
		s.explain(name)
		stuck = append(stuck, name)
	}
	return stuck
}

// hasNetworks returns an error unless a pod has exactly these networks: network-status lists them in
// order, and its network namespace has their interfaces and no others.
func (s *suite) hasNetworks(ctx context.Context, name string, networks []string) error {
	pod, err := s.Kube.CoreV1().Pods(s.ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if c := pod.Status.ContainerStatuses[0]; c.RestartCount > 0 {
		return fmt.Errorf("its container was restarted: %+v", c)
	}
	statuses, err := s.NetworkStatus(ctx, s.ns, name)
	if err != nil {
		return err
	}
	statuses = slices.DeleteFunc(statuses, func(n nadv1.NetworkStatus) bool { return n.Default })
	var interfaces []string
	for _, n := range statuses {
		interfaces = append(interfaces, n.Interface)
	}
	if len(statuses) != len(networks) {
		return fmt.Errorf("network-status lists %+v, want %q", statuses, networks)
	}
	for i, n := range networks {
		network, iface, named := strings.Cut(n, "@")
		if statuses[i].Name != s.ns+"/"+network || named && statuses[i].Interface != iface {
			return fmt.Errorf("network-status lists %+v, want %q", statuses, networks)
		}
	}
	links, err := s.interfacesAt(pod.Status.PodIP)
	slices.Sort(interfaces)
	links = slices.DeleteFunc(links, func(link string) bool { return s.tornLink(ctx, name, link) })
	if err == nil && !slices.Equal(links, interfaces) {
		err = fmt.Errorf("its network namespace has %q, network-status lists %q", links, interfaces)
	}
	return err
}

// interfacesAt returns the interfaces in the network namespace with this address of eth0, without lo and eth0.
func (s *suite) interfacesAt(address string) (names []string, err error) {
	paths, err := s.node.PodNetNSPaths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		found := false
		err := s.node.DoInNetNS(path, func() error {
			all, err := net.Interfaces()
			names = nil
			for _, i := range all {
				switch addrs, _ := i.Addrs(); i.Name {
				case "lo":
				case "eth0":
					found = slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), address+"/") })
				default:
					names = append(names, i.Name)
				}
			}
			return err
		})
		if found || err != nil {
			slices.Sort(names)
			return names, err
		}
	}
	return nil, fmt.Errorf("no network namespace of %q has address %s", paths, address)
}
