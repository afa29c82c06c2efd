package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	kubeVirtModule = "kubevirt.io/kubevirt"
	// KubeVirtImage is the image in KubeVirt.Image, of KubeVirt's own pods and of launcher pods.
	KubeVirtImage = "localhost/kubevirt:lane"
)

// KubeVirt has the parts of KubeVirt that need neither libvirt nor KVM.
type KubeVirt struct {
	// Image is the archive of the image with virt-api, virt-controller, the stand-in for the programs of launcher
	// pods, and a program that reads in them what virt-launcher reads about devices.
	Image string
	// Binding is a program that binds the networks of a machine to its launcher pod, as virt-handler does.
	Binding string
	// manifests is the program that prints what virt-operator would install.
	manifests string
}

// KubeVirtMigrationNetwork is the network in KubeVirt's namespace over which machines would be migrated.
const KubeVirtMigrationNetwork = "migration"

// launcherPrograms are the programs that virt-controller names in launcher pods, and that of virt-handler's pods.
var launcherPrograms = []string{"virt-launcher-monitor", "virt-tail", "virt-handler"}

// BuildKubeVirt builds virt-api and virt-controller from their Go module. They are no part of a
// cluster, so Build does not build them.
func BuildKubeVirt(ctx context.Context, out io.Writer) (KubeVirt, error) {
	root, err := sourceRoot()
	if err != nil {
		return KubeVirt{}, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return KubeVirt{}, err
	}
	cache = filepath.Join(cache, "components")
	dir := filepath.Join(root, "test/cluster/components/kubevirt")
	b := &planner{ctx: ctx}
	built := b.add(goBuild{
		name: "kubevirt", version: b.moduleVersion(dir, kubeVirtModule), dir: dir, own: "kubevirt.io/...",
		sources:  []string{"manifests/*.go", "launcher/*.go", "binding/*.go", "devices/*.go", "template/*/*/*.go", "template/*/*/*/*.go"},
		packages: append(prefixed(kubeVirtModule+"/cmd/", "virt-api", "virt-controller"), "./manifests", "./launcher", "./binding", "./devices"),
	})
	mkimage := b.add(mkimageBuild(root))
	if b.err != nil {
		return KubeVirt{}, fmt.Errorf("planning to build KubeVirt: %w", b.err)
	}
	image := b.addRecipe(kubeVirtImage(cache, built, mkimage))
	for _, r := range []*recipe{built, mkimage, image} {
		if _, err := r.provide(ctx, "components", out); err != nil {
			return KubeVirt{}, err
		}
	}
	return KubeVirt{
		Image:     filepath.Join(image.folder(cache), "kubevirt.tar"),
		Binding:   filepath.Join(built.folder(cache), "binding"),
		manifests: filepath.Join(built.folder(cache), "manifests"),
	}, b.err
}

// kubeVirtImage writes the archive of the image. Its pods write to the volume for profiles only.
func kubeVirtImage(cache string, programs, mkimage *recipe) *recipe {
	r := &recipe{name: "kubevirt-image", version: programs.version, salt: append([]string{programs.key, mkimage.key}, launcherPrograms...)}
	r.cook = func(ctx context.Context, into string, _ *step) error {
		args := []string{
			"-o", filepath.Join(into, "kubevirt.tar"), "-t", KubeVirtImage, "-env", "PATH=/usr/bin", "-env", "TMPDIR=/profile-data",
			"/usr/bin/virt-api=" + filepath.Join(programs.folder(cache), "virt-api"),
			"/usr/bin/virt-controller=" + filepath.Join(programs.folder(cache), "virt-controller"),
			"/usr/bin/devices=" + filepath.Join(programs.folder(cache), "devices"),
		}
		for _, name := range launcherPrograms {
			args = append(args, "/usr/bin/"+name+"="+filepath.Join(programs.folder(cache), "launcher"))
		}
		return run(ctx, filepath.Join(mkimage.folder(cache), "mkimage"), args...)
	}
	return r
}

// WriteManifests writes what virt-operator would install for virt-api and virt-controller, with new
// certificates, as a List into a file.
func (k KubeVirt) WriteManifests(ctx context.Context, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, k.manifests, "-image", KubeVirtImage, "-launcher", KubeVirtImage, "-migration-network", KubeVirtMigrationNetwork)
	cmd.Stdout = f
	if err := cmd.Run(); err != nil {
		f.Close()
		return fmt.Errorf("generating KubeVirt's manifests: %w", err)
	}
	return f.Close()
}
