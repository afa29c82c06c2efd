package translate

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input is what to convert. Networks and workloads find each other across
// files.
type Input struct {
	Files []File
	// Context are manifests that the rules look at and that are not converted:
	// what a cluster has already. Where Files have the same object, theirs
	// counts.
	Context []File
	Options Options
}

// Result is what came of it.
type Result struct {
	// Files are the input's, in their order; those that needed no change have
	// the very bytes of the input.
	Files []File
	// Created are classes and templates that the input does not have, in the
	// order of what they are for.
	Created []Created
	// Findings are sorted by place.
	Findings []Finding
	// Workloads are those that have to do with networks, in the input's order.
	Workloads []Verdict
	// Networks are those of the input, in its order.
	Networks []NetworkVerdict
	// Accounts say what became of each field that had to be converted.
	Accounts []Account
	// Looked is how many objects there were, by kind.
	Looked map[string]int
}

// Convert converts manifests. It has no errors: what cannot be converted stays,
// and a finding says why.
//
// The input is gone through twice: first for what the rules have to know of
// other objects, then file by file, so that only few documents are parsed at
// any time.
func Convert(in Input) Result {
	env := newEnvironment(in.Options)
	result := Result{Files: slices.Clone(in.Files), Looked: map[string]int{}}
	for _, n := range env.learnAll(in.Context).networks {
		env.present[refOf(n.verdict.Object)] = true
	}
	known := env.learnAll(in.Files)
	result.Findings = known.findings
	for _, n := range known.networks {
		result.Networks = append(result.Networks, n.verdict)
	}
	outcomes := make([]outcome, len(in.Files))
	parallel(len(in.Files), func(i int) {
		outcomes[i] = convertFile(in.Files[i], env)
		result.Files[i].Data = outcomes[i].data
	})
	order := map[string]int{}
	for i, out := range outcomes {
		order[in.Files[i].Name] = i
		for kind, n := range out.looked {
			result.Looked[kind] += n
		}
		result.Findings = append(result.Findings, out.findings...)
		result.Workloads = append(result.Workloads, out.workloads...)
		result.Accounts = append(result.Accounts, out.accounts...)
	}
	result.Created = env.created(in.Files, known, outcomes)
	sortFindings(result.Findings, order)
	return result
}

// created are the networks, classes and templates that are needed and nobody
// has, each once.
func (e *environment) created(files []File, known learned, outcomes []outcome) []Created {
	var out []Created
	for _, n := range known.networks {
		at := n.verdict.Position.File
		if n.definition != nil {
			out = append(out, Created{Object: n.definition, For: at})
		}
		if class := n.verdict.Class; class != "" && !e.classes[class] {
			e.classes[class] = true
			out = append(out, Created{Object: DeviceClass(refOf(n.verdict.Object), n.verdict.Pool), For: at})
		}
	}
	made := map[string]bool{}
	for i := range outcomes {
		out = append(out, e.classesFor(outcomes[i].workloads, files[i].Name)...)
		for _, t := range outcomes[i].templates {
			key := t.object.Namespace + "/" + t.object.Name
			if made[key] || e.template(t.object.Namespace, t.object.Name) != nil {
				continue
			}
			made[key] = true
			if t.unstated && e.options.Namespace == "" {
				// It goes where the workload goes.
				t.object.Namespace = ""
			}
			out = append(out, Created{Object: t.object, For: files[i].Name})
		}
	}
	return out
}

// classesFor are the classes of networks that the cluster has, for workloads
// that need them. A cluster without nadra's controller has none.
func (e *environment) classesFor(workloads []Verdict, file string) []Created {
	var out []Created
	for _, w := range workloads {
		if w.Readiness == Stays {
			continue
		}
		for _, name := range w.Networks {
			namespace, name, _ := strings.Cut(name, "/")
			ref := attachment.NetworkRef{Namespace: namespace, Name: name}
			n := e.networks[ref]
			if class := DeviceClass(ref, n.resourceName); e.present[ref] && e.servable(n) && !e.classes[class.Name] {
				e.classes[class.Name] = true
				out = append(out, Created{Object: class, For: file})
			}
		}
	}
	return out
}

// parallel calls f for 0 to n-1, on all processors. Reading and writing the
// text takes most of the time, and files do not depend on each other in that.
func parallel(n int, f func(int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	group.Wait()
}
