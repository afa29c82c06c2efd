//go:build e2e

package vm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// comingPods is how many pods with a CPU, a virtual function and a GPU come and go.
const comingPods = 100

// simulated is a Node without a kubelet, which offers what the guest offers. The scheduler's choices are the same there,
// and cost the guest nothing.
const simulated = "simulated"

// simulate creates the simulated node, with copies of the slices of the guest.
func (f *fixture) simulate(t *testing.T) {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	_, err := f.Kube.CoreV1().Nodes().Create(f.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: simulated, Labels: map[string]string{corev1.LabelHostname: simulated}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{})
	f.must(err)
	t.Cleanup(f.forget)
	all := f.Kube.ResourceV1().ResourceSlices()
	list, err := all.List(f.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + f.Guest.Name()})
	f.must(err)
	for _, slice := range list.Items {
		slice.ObjectMeta = metav1.ObjectMeta{GenerateName: simulated + "-", Labels: map[string]string{simulated: "true"}}
		*slice.Spec.NodeName = simulated
		slice.Spec.Pool.Name = strings.Replace(slice.Spec.Pool.Name, f.Guest.Name(), simulated, 1)
		_, err := all.Create(f.ctx, &slice, metav1.CreateOptions{})
		f.must(err)
	}
}

// forget deletes the simulated node and its slices, if they are there.
func (f *fixture) forget() {
	f.Helper()
	ctx := context.WithoutCancel(f.ctx)
	_, err := f.Cluster.Kubectl(ctx, "delete", "node/"+simulated, "--ignore-not-found")
	f.must(err)
	f.must(f.Kube.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: simulated}))
}

// arrive creates a pod on the simulated node, which never becomes Ready.
func (f *fixture) arrive(name, template string) {
	f.Helper()
	pod := lab.Pod(f.ns, name, template)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: simulated}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	f.start(pod)
}

// comeAndGo lets pods with a device of each kind come and go on the simulated node, with claims of a template, while
// other pods take and leave single devices, so that different devices are free on each NUMA node. It returns how many
// of the pods had devices of two NUMA nodes. It creates no more of them at once than the free devices can serve on one
// NUMA node each.
func (f *fixture) comeAndGo(t *testing.T, all placement, template string) (split int) {
	random := rand.New(rand.NewPCG(1, 1))
	held := map[string][]string{}
	create := func(template string, made, count int) {
		var names []string
		for i := range count {
			names = append(names, fmt.Sprintf("%s-%d", template, made+i))
			f.arrive(names[i], template)
		}
		maps.Copy(held, f.allocated(t, names...))
	}
	for made, round := 0, 0; made < comingPods; round++ {
		gone := slices.Sorted(maps.Keys(held))
		random.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
		gone = gone[:(len(gone)+1)/2]
		f.remove(t, gone...)
		for _, name := range gone {
			delete(held, name)
		}
		for _, kind := range kinds {
			create(kind, 10*round, min(random.IntN(3), free(all, held, kind, "")))
		}
		count := 0
		for _, node := range []string{"0", "1"} {
			count += min(free(all, held, "cpu", node), free(all, held, "pci", node), free(all, held, "gpu", node))
		}
		count = min(count, comingPods-made)
		create(template, made, count)
		for i := range count {
			if len(all.values(numaNode, held[fmt.Sprintf("%s-%d", template, made+i)])) > 1 {
				split++
			}
		}
		made += count
	}
	f.remove(t, slices.Collect(maps.Keys(held))...)
	return split
}

// free counts the devices of a kind, by the prefix of their names, that no pod holds, on a NUMA node or on all.
func free(all placement, held map[string][]string, kind, node string) (count int) {
	for device := range all {
		_, name, _ := strings.Cut(device, "/")
		if strings.HasPrefix(name, kind) && (node == "" || all.values(numaNode, []string{device})[0] == node) {
			count++
		}
	}
	for _, devices := range held {
		for _, device := range devices {
			_, name, _ := strings.Cut(device, "/")
			if strings.HasPrefix(name, kind) && (node == "" || all.values(numaNode, []string{device})[0] == node) {
				count--
			}
		}
	}
	return count
}
