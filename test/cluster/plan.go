package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plan is the list of recipes, in the order of their builds.
type plan struct {
	folder  string // of the cache
	recipes []*recipe

	kubernetes, kubelet, kubectl, containerd, runc, cni, tool, images *recipe
	crio                                                              *recipe // nil unless nodes run it
}

const cniPlugins = "github.com/containernetworking/plugins/plugins"

// newPlan describes how every component is built and computes the keys. All have the same
// flags, so that packages are compiled once.
func newPlan(ctx context.Context, root string) (*plan, error) {
	if err := checkRuntimeVariable(); err != nil {
		return nil, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	components := filepath.Join(root, "test/cluster/components")
	p := &plan{folder: filepath.Join(cache, "components")}
	b := &planner{ctx: ctx}

	kubernetes := b.kubernetesBuild(components, os.Getenv(kubernetesVariable))
	p.kubernetes = b.add(kubernetes)
	p.kubelet = p.kubernetes
	if minor := os.Getenv(kubeletVariable); minor != "" {
		p.kubelet = b.add(b.kubernetesBuild(components, minor))
	}
	// Tests run kubectl more than a thousand times. On its own it starts in half the time.
	p.kubectl = b.add(goBuild{
		name: "kubectl", version: kubernetes.version, dir: kubernetes.dir, modfile: kubernetes.modfile,
		own: kubernetes.own, ldflags: kubernetes.ldflags, packages: []string{"k8s.io/kubernetes/cmd/kubectl"},
	})

	p.containerd = b.add(b.containerdBuild(components, os.Getenv(containerdVariable)))

	runc := filepath.Join(components, "runc")
	version := b.moduleVersion(runc, "github.com/opencontainers/runc")
	p.runc = b.add(goBuild{
		name: "runc", version: version, dir: runc, cgo: true, tags: "seccomp netgo osusergo",
		ldflags:  " -linkmode external -extldflags -static -X main.version=" + strings.TrimPrefix(version, "v"),
		packages: []string{"github.com/opencontainers/runc"},
	})

	cni := filepath.Join(components, "cni")
	p.cni = b.add(goBuild{
		name: "cni", version: b.moduleVersion(cni, "github.com/containernetworking/plugins"), dir: cni,
		packages: prefixed(cniPlugins+"/", "main/bridge", "main/ptp", "main/macvlan", "main/loopback", "main/host-device",
			"main/tap", "ipam/dhcp", "ipam/host-local", "ipam/static", "meta/tuning", "meta/sbr", "meta/bandwidth"),
	})

	pause := b.add(goBuild{name: "pause", dir: filepath.Join(components, "pause"), packages: []string{"."}})
	mkimage := b.add(mkimageBuild(root))
	p.images = b.addRecipe(imagesRecipe(p.folder, pause, mkimage))
	p.tool = b.add(goBuild{
		name: "nadra-cluster", dir: root, packages: []string{"./test/cluster/cmd/nadra-cluster"},
		sources: []string{"test/cluster/*.go", "test/cluster/templates/*", "test/cluster/cmd/nadra-cluster/*.go"},
	})
	if wantsCRIO() {
		p.crio = crioBuild(b, filepath.Join(components, "crio"))
	}
	p.recipes = b.recipes
	return p, b.err
}

func mkimageBuild(root string) goBuild {
	return goBuild{name: "mkimage", dir: filepath.Join(root, "build/mkimage"), packages: []string{"."}}
}

func (p *plan) artifacts() Artifacts {
	a := Artifacts{
		Kubernetes: p.kubernetes.folder(p.folder),
		Kubelet:    p.kubelet.folder(p.folder),
		Kubectl:    p.kubectl.folder(p.folder),
		Containerd: p.containerd.folder(p.folder),
		Runc:       p.runc.folder(p.folder),
		CNI:        p.cni.folder(p.folder),
		Tool:       p.tool.folder(p.folder),
		Images:     p.images.folder(p.folder),
	}
	if p.crio != nil {
		a.CRIO = p.crio.folder(p.folder)
	}
	return a
}

func (p *plan) complete() bool {
	for _, r := range p.recipes {
		if !r.done(p.folder) {
			return false
		}
	}
	return true
}

func prefixed(prefix string, names ...string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}

// planner collects recipes and keeps the first error, so that the plan reads
// as a list.
type planner struct {
	ctx     context.Context
	recipes []*recipe
	err     error
}

func (b *planner) add(g goBuild) *recipe {
	r, err := g.recipe(b.ctx)
	if err != nil && b.err == nil {
		b.err = err
	}
	return b.addRecipe(r)
}

func (b *planner) addRecipe(r *recipe) *recipe {
	if b.err == nil {
		b.err = r.prepare()
	}
	b.recipes = append(b.recipes, r)
	return r
}

// moduleVersion reads the version of a module from the go.mod in dir, the only
// place where it is written.
func (b *planner) moduleVersion(dir, module string) string {
	return b.requiredVersion(filepath.Join(dir, goMod), module)
}

// requiredVersion reads the version of a module from a file like go.mod.
func (b *planner) requiredVersion(modfile, module string) string {
	versions, err := requirements(modfile)
	if err != nil {
		b.err = err
		return "v0.0"
	}
	if version, found := versions[module]; found {
		return version
	}
	b.err = fmt.Errorf("%s does not require %s", modfile, module)
	return "v0.0"
}

// requirements returns the versions that a file like go.mod requires, by module.
func requirements(modfile string) (map[string]string, error) {
	content, err := os.ReadFile(modfile)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		if _, found := versions[fields[0]]; !found { // lines of replace and exclude come later
			versions[fields[0]] = fields[1]
		}
	}
	return versions, nil
}
