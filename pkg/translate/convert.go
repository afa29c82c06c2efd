package translate

import (
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input is what to convert. A workload may use networks of other files.
type Input struct {
	Files []File
	// Context has manifests that the rules read but do not convert, such as the objects of a
	// cluster. An object of Files takes precedence over the same object of Context.
	Context []File
	// Beside has manifests of the same folders that are not converted: kustomizations, and the objects
	// that earlier conversions created.
	Beside  []File
	Options Options
}

// Result is the result of a conversion.
type Result struct {
	// Files has the files of the input in their order. A file without changes has the bytes of
	// the input.
	Files []File
	// Created has the objects that the converted input needs and does not have, in the order of
	// the objects that need them.
	Created []Created
	// Unrendered has what must be rendered before its pods can be judged. Those that mention networks
	// are in Workloads and Findings, too.
	Unrendered []UnrenderedUnit
	// Findings are sorted by position.
	Findings []Finding
	// Workloads has the workloads that use networks, in the input's order, and then what is not rendered.
	Workloads []Verdict
	// Networks has the networks of the input, in its order.
	Networks []NetworkVerdict
	// Kinds counts the objects of the input by kind.
	Kinds map[string]int
	// UnusedClasses has the keys of Options.DeviceClasses that no network and no pool of the input is.
	UnusedClasses []string
}

// Convert converts manifests. It returns no error: an object that cannot be converted stays as it
// is, and a finding says why.
//
// Convert reads the input twice: first to record the objects to which workloads refer, then file
// by file, so that few parsed documents are in memory at any time.
func Convert(in Input) Result {
	env := newEnvironment(in.Options)
	env.units = newUnits(in.Files, in.Beside)
	result := Result{Files: slices.Clone(in.Files), Kinds: map[string]int{}}
	for _, n := range env.index(in.Context, true).networks {
		env.present[refOf(n.verdict.Object)] = true
	}
	env.index(in.Beside, false)
	known := env.index(in.Files, false)
	result.Findings = known.findings
	for _, n := range known.networks {
		result.Networks = append(result.Networks, n.verdict)
	}
	outcomes, placed := env.convertFiles(in.Files)
	order := map[string]int{}
	var unrendered []UnrenderedUnit
	for i, out := range outcomes {
		unrendered = append(unrendered, out.unrendered...)
		order[in.Files[i].Name], result.Files[i].Data = i, out.data
		for kind, n := range out.kinds {
			result.Kinds[kind] += n
		}
		result.Findings = append(result.Findings, out.findings...)
		result.Workloads = append(result.Workloads, out.workloads...)
	}
	result.addUnrendered(unrendered, env.units)
	result.Created = env.created(in.Files, known, outcomes, placed)
	if in.Options.NoClasses {
		result.Created = slices.DeleteFunc(result.Created, func(c Created) bool {
			_, class := c.Object.(*resourceapi.DeviceClass)
			return class
		})
	}
	sortFindings(result.Findings, order)
	result.UnusedClasses = env.unusedClasses()
	return result
}

// convertFiles converts files, and decides beside which of them templates are created. Workloads whose template no file
// could have for all kustomizations stay as they are.
func (e *environment) convertFiles(files []File) (outcomes []fileResult, placed map[placement]bool) {
	outcomes = make([]fileResult, len(files))
	for before := maps.Clone(e.places); ; e.places = maps.Clone(before) {
		parallel(len(files), func(i int) { outcomes[i] = convertFile(files[i], e) })
		if placed, clashing := e.placeTemplates(files, outcomes); !clashing {
			return outcomes, placed
		}
	}
}

// created returns the classes and templates that neither the input nor the cluster has, each once.
func (e *environment) created(files []File, known index, outcomes []fileResult, placed map[placement]bool) []Created {
	var out []Created
	for _, n := range known.networks {
		if class := n.verdict.Class; class != "" && !e.classes[class] {
			e.classes[class] = true
			out = append(out, Created{Object: DeviceClass(refOf(n.verdict.Object), n.verdict.Pool), For: e.units.spread(n.files)})
		}
	}
	made := map[string]int{}
	for i := range outcomes {
		out = append(out, e.classesFor(outcomes[i].workloads, files[i].Name)...)
		for _, t := range outcomes[i].templates {
			key := t.object.Namespace + "/" + t.object.Name
			if here := (placement{key, files[i].Name}); placed[here] {
				delete(placed, here)
			} else {
				continue
			}
			if at, there := made[key]; there {
				out[at].For = append(out[at].For, files[i].Name)
				continue
			}
			made[key] = len(out)
			if t.unstated && e.options.Namespace == "" {
				// The template goes to the workload's namespace.
				t.object.Namespace = ""
			}
			out = append(out, Created{Object: t.object, For: []string{files[i].Name}})
		}
	}
	return out
}

// classesFor returns the missing classes of the cluster's networks that workloads need. A cluster
// without nadra's controller has no such classes.
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
				out = append(out, Created{Object: class, For: []string{file}})
			}
		}
	}
	return out
}

// parallel calls f for 0 to n-1 on all processors. Parsing and writing text takes most of the
// time, and files are independent of each other there.
func parallel(n int, f func(int)) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait() // no call returns an error
}
