package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
	// WhereaboutsImage is the image in Whereabouts.Image.
	WhereaboutsImage = "localhost/whereabouts:lane"
)

// Whereabouts has the parts of the IPAM plugin whereabouts that its own manifests install.
type Whereabouts struct {
	// Image is the archive of the image that the DaemonSet runs: the plugin,
	// ip-control-loop, and the module's own install script.
	Image string
	// Plugin is the plugin.
	Plugin string
	// Reconcile is a program that runs the reconciler once.
	Reconcile string
	// CRDs is the folder in the module that has its CRDs and its DaemonSet.
	CRDs string
}

// whereaboutsApplets are the commands that the install script calls.
var whereaboutsApplets = []string{
	"base64", "cat", "chmod", "cp", "date", "echo", "mkdir", "rm", "sed", "sh", "sleep", "test", "touch", "tr",
}

// BuildWhereabouts builds whereabouts from its Go module. It is no part of a
// cluster, so Build does not build it.
func BuildWhereabouts(ctx context.Context, out io.Writer) (Whereabouts, error) {
	root, err := sourceRoot()
	if err != nil {
		return Whereabouts{}, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return Whereabouts{}, err
	}
	cache = filepath.Join(cache, "components")
	b := &planner{ctx: ctx}
	programs := whereaboutsBuild(b, root)
	built := b.add(programs)
	mkimage := b.add(mkimageBuild(root))
	if b.err != nil {
		return Whereabouts{}, fmt.Errorf("planning to build whereabouts: %w", b.err)
	}
	module, err := programs.moduleFolder(ctx, whereaboutsModule)
	if err != nil {
		return Whereabouts{}, err
	}
	image := b.addRecipe(whereaboutsImage(cache, module, built, mkimage))
	for _, r := range []*recipe{built, mkimage, image} {
		if _, err := r.provide(ctx, "components", out); err != nil {
			return Whereabouts{}, err
		}
	}
	return Whereabouts{
		Image:     filepath.Join(image.folder(cache), "whereabouts.tar"),
		Plugin:    filepath.Join(built.folder(cache), "cmd"),
		Reconcile: filepath.Join(built.folder(cache), "reconcile"),
		CRDs:      filepath.Join(module, "doc", "crds"),
	}, b.err
}

func whereaboutsBuild(b *planner, root string) goBuild {
	dir := filepath.Join(root, "test/cluster/components/whereabouts")
	return goBuild{
		name: "whereabouts", version: b.moduleVersion(dir, whereaboutsModule), dir: dir,
		sources:  []string{"reconcile/*.go"},
		packages: append(prefixed(whereaboutsModule+"/cmd", "", "/controlloop"), "./reconcile"),
	}
}

// whereaboutsImage writes the archive of the image. The module's files are not
// executable, so the script is copied first.
func whereaboutsImage(cache, module string, programs, mkimage *recipe) *recipe {
	r := &recipe{name: "whereabouts-image", version: programs.version, salt: append([]string{programs.key, mkimage.key}, whereaboutsApplets...)}
	r.cook = func(ctx context.Context, into string, _ *step) error {
		script, err := os.ReadFile(filepath.Join(module, "script", "install-cni.sh"))
		if err != nil {
			return err
		}
		copied := filepath.Join(into, "install-cni.sh")
		if err := os.WriteFile(copied, script, 0o755); err != nil {
			return err
		}
		busybox, err := findBusybox()
		if err != nil {
			return err
		}
		args := []string{
			"-o", filepath.Join(into, "whereabouts.tar"), "-t", WhereaboutsImage, "-env", "PATH=/bin", "/bin/busybox=" + busybox,
			"/whereabouts=" + filepath.Join(programs.folder(cache), "cmd"),
			"/ip-control-loop=" + filepath.Join(programs.folder(cache), "controlloop"),
			"/install-cni.sh=" + copied,
		}
		for _, applet := range whereaboutsApplets {
			args = append(args, "/bin/"+applet+"=@busybox")
		}
		return run(ctx, filepath.Join(mkimage.folder(cache), "mkimage"), args...)
	}
	return r
}

// moduleFolder returns the folder of a module that the component requires, and
// downloads the module if it is not there.
func (g goBuild) moduleFolder(ctx context.Context, module string) (string, error) {
	output, err := g.command(ctx, "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return "", fmt.Errorf("reading where %s is: %w", module, err)
	}
	return downloaded.Dir, nil
}
