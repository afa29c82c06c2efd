package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
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
	// manifests is the folder in the module that has its CRDs and its DaemonSet.
	manifests string
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
		manifests: filepath.Join(module, "doc", "crds"),
	}, b.err
}

// Manifest returns the CRDs and objects of the module. change adapts an object, and returns false for one to leave out.
func (w Whereabouts) Manifest(change func(*unstructured.Unstructured) (keep bool, err error)) (string, error) {
	files, err := filepath.Glob(filepath.Join(w.manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("looking for manifests in %s: found %d: %w", w.manifests, len(files), err)
	}
	var out strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var o unstructured.Unstructured
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return "", fmt.Errorf("parsing %s: %w", file, err)
			}
			if len(o.Object) == 0 {
				continue
			}
			keep, err := change(&o)
			if err != nil {
				return "", fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			if !keep {
				continue
			}
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return "", err
			}
			out.WriteString("---\n" + string(text))
		}
	}
	return out.String(), nil
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
