//go:build e2e

package vm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
)

// comingPods is how many pods with a CPU, a virtual function and a GPU come and go.
const comingPods = 100

// comeAndGo lets pods with a device of each kind come and go, with claims of a template, while other pods take and
// leave CPUs and GPUs, so that different devices are free on each NUMA node. It returns how many of the pods had
// devices of two nodes. It creates no more pods at once than the free devices can serve on one node each.
func (f *fixture) comeAndGo(t *testing.T, all placement, template string) (split int) {
	random := rand.New(rand.NewPCG(1, 1))
	held := map[string][]string{}
	create := func(template string, made, count int) {
		var names []string
		for i := range count {
			names = append(names, fmt.Sprintf("%s-%d", template, made+i))
			f.start(lab.Pod(f.ns, names[i], template))
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
		for _, kind := range []string{"cpu", "gpu"} {
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
