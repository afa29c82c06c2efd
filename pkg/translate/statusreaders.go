package translate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reader is a workload that runs a program which reads the annotation, or may read it.
type Reader struct {
	// Program is the name of a known program; empty for an unknown one, whose rights show that
	// it may read the annotation.
	Program string `json:"program,omitempty"`
	// Workload is the kind and namespace/name.
	Workload string `json:"workload"`
	Image    string `json:"image,omitempty"`
}

// String names the reader with its workload, for findings.
func (r Reader) String() string {
	if r.Program == "" {
		return r.Workload
	}
	return r.Program + " (" + r.Workload + ")"
}

// Find returns the known program that a workload runs. It goes by names: of the workload, its containers,
// images and commands. Distributions rename images, and refer to them by digest, but keep one of these.
func Find(name string, spec *corev1.PodSpec) (p Program, image string, found bool) {
	for _, p := range programs {
		for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
			if slices.ContainsFunc(namesOf(name, c), p.is) {
				return p, c.Image, true
			}
		}
	}
	return Program{}, "", false
}

// namesOf returns the names by which a container shows its program.
func namesOf(workload string, c corev1.Container) []string {
	out := []string{workload, c.Name}
	image, _, _ := strings.Cut(path.Base(c.Image), ":")
	image, _, _ = strings.Cut(image, "@")
	out = append(out, image)
	for _, word := range slices.Concat(c.Command, c.Args) {
		for field := range strings.FieldsSeq(word) {
			if !strings.HasPrefix(field, "-") {
				out = append(out, path.Base(field))
			}
		}
	}
	return out
}

// is reports whether a name is that of the program, as a whole or between hyphens.
func (p Program) is(name string) bool {
	return slices.ContainsFunc(p.Names, func(known string) bool { return strings.Contains("-"+name+"-", "-"+known+"-") })
}

// Of returns a known program by its name.
func Of(name string) (Program, bool) {
	i := slices.IndexFunc(programs, func(p Program) bool { return p.Name == name })
	if i < 0 {
		return Program{}, false
	}
	return programs[i], true
}
