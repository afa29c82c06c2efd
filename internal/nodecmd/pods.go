package nodecmd

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// PodOptions selects the pods to inspect. All paths are the host's.
type PodOptions struct {
	// Root is the host's root directory in this process's mount namespace.
	Root string
	// UIDs are those of the pods to inspect. Empty means all.
	UIDs []string
	// Inside describes the network namespace at a path of this process. Nil means by the
	// kernel.
	Inside func(path string) (probe.Pod, error)
	// VFs lists the host's virtual functions. Nil means those in Root.
	VFs func() ([]probe.VF, error)
}

// ProbePods inspects the pods of the node, calls write with the report about each, and
// returns the last line. It finds pods by the cgroups of their processes, so it needs
// neither a container runtime nor nadra or Multus. What cannot be read is in the reports'
// Errors. ProbePods returns the error of write or of ctx.
func ProbePods(ctx context.Context, o PodOptions, write func(probe.PodReport) error) (probe.PodsReport, error) {
	end := probe.PodsReport{APIVersion: probe.APIVersion, Kind: probe.PodsKind}
	failed := func(doing string, err error) {
		if err != nil {
			end.Errors = append(end.Errors, fmt.Sprintf("%s: %v", doing, err))
		}
	}
	if o.VFs == nil {
		o.VFs = hostVFs(o.Root)
	}
	if o.Inside == nil {
		inside, err := newInside()
		failed("asking the kernel for the host's interfaces", err)
		o.Inside = inside.look
	}
	found, err := processes(o.Root)
	failed("listing processes", err)
	host := namespaceOf(filepath.Join(o.Root, "proc", "1"))
	for _, uid := range slices.Sorted(maps.Keys(found)) {
		if len(o.UIDs) > 0 && !slices.Contains(o.UIDs, uid) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return end, fmt.Errorf("inspecting pods: %w", err)
		}
		pod, there := o.pod(uid, found[uid], host)
		if !there {
			continue
		}
		if err := write(probe.NewPodReport(pod)); err != nil {
			return end, err
		}
		end.Count++
	}
	end.VFs, err = o.VFs()
	failed("listing virtual functions", err)
	return end, nil
}

// pod inspects a pod. there is false if it has ended meanwhile.
func (o PodOptions) pod(uid string, all []process, host string) (pod probe.Pod, there bool) {
	first, namespace := representative(o.Root, all)
	if namespace == "" {
		return pod, false
	}
	var errs []string
	if namespace != host {
		var err error
		if pod, err = o.Inside(filepath.Join(o.dir(first), "ns", "net")); err != nil {
			if namespaceOf(o.dir(first)) != namespace {
				return pod, false
			}
			errs = append(errs, err.Error())
		}
	}
	pod.UID, pod.HostNetwork = uid, namespace == host
	for id, p := range firstOfEach(all) {
		env, err := environment(o.dir(p))
		if err != nil {
			errs = append(errs, fmt.Sprintf("container %.12s: %v", id, err))
		}
		pod.Containers = append(pod.Containers, probe.Container{ID: id, Env: env})
	}
	slices.SortFunc(pod.Containers, func(a, b probe.Container) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(errs)
	pod.Errors = append(pod.Errors, errs...)
	return pod, true
}

// dir returns the directory of a process in /proc.
func (o PodOptions) dir(p process) string { return filepath.Join(o.Root, "proc", strconv.Itoa(p.pid)) }
