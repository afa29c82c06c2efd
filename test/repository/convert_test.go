package repository_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/repository"
)

// TestConvertedRepositories converts random repositories in place, builds their kustomizations, decodes
// everything by the API's types, and compares what the driver would attach to each pod with what Multus
// would: the annotation, read by Multus' rules. CONVERT_REPOSITORIES is the number of repositories.
func TestConvertedRepositories(t *testing.T) { eachRepository(t, repositories(t), checkInPlace) }

// TestRenderedRepositories builds the kustomizations of random repositories first, and scans and converts
// the stream, as in "kubectl kustomize | kubectl nadra convert -f -". Otherwise it does the same, for a third of the repositories:
// a build of a kustomization takes most of the time.
func TestRenderedRepositories(t *testing.T) { eachRepository(t, repositories(t)/3, checkRendered) }

// repositories returns how many repositories to convert.
func repositories(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CONVERT_REPOSITORIES")
	if text == "" {
		return 60
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// eachRepository checks random repositories. A check returns the number of converted pods.
func eachRepository(t *testing.T, count int, check func(t *testing.T, r repository.Repository, dir string) int) {
	pods := 0
	for seed := range count {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r, dir := repository.New(uint64(seed)), t.TempDir()
			for name, text := range r.Files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			converted := check(t, r, dir)
			if converted != r.Pods {
				t.Errorf("%d pods, want %d", converted, r.Pods)
			}
			pods += converted
		})
	}
	t.Logf("%d pods of %d repositories", pods, count)
	if pods < count {
		t.Errorf("%d pods were converted, fewer than one of each repository", pods)
	}
}

// runOK runs kubectl nadra with the pools that the repositories use.
func runOK(t *testing.T, stdin string, args ...string) (out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}
	args = append(args, "--pools", strings.Join(repository.Pools(), ","))
	if code := cli.Run(t.Context(), args, streams); code != cli.CodeOK {
		t.Fatalf("kubectl nadra %v: exit code %d\n%s", args, code, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// kustomized returns what the kustomization of a folder builds.
func kustomized(t *testing.T, dir string) []byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkInPlace converts the files of a repository.
func checkInPlace(t *testing.T, r repository.Repository, dir string) int {
	convert := func() string {
		_, errs := runOK(t, "", "convert", "-R", "-f", dir, "--in-place")
		return errs
	}
	convert()
	before := read(t, dir)
	if again := convert(); !strings.Contains(again, "Converted 0,") || !strings.Contains(again, "Created 0 objects") {
		t.Errorf("converting again changes something:\n%s", again)
	}
	if diff := cmp.Diff(before, read(t, dir)); diff != "" {
		t.Errorf("converting again (-before +after):\n%s", diff)
	}
	classes := map[string]*resourceapi.DeviceClass{}
	applied := map[string]*builtObjects{} // by folder
	for _, root := range r.Roots {
		applied[root] = newBuilt(classes)
		applied[root].add(t, kustomized(t, filepath.Join(dir, root)))
	}
	for name, text := range before {
		folder := filepath.Dir(name)
		if slices.Contains(r.Roots, folder) {
			continue
		}
		if applied[folder] == nil {
			applied[folder] = newBuilt(classes)
		}
		applied[folder].add(t, []byte(text))
	}
	pods := 0
	for _, b := range applied {
		pods += b.check(t)
	}
	return pods
}

// checkRendered converts the stream of what a repository's kustomizations build and of its other files.
func checkRendered(t *testing.T, r repository.Repository, dir string) int {
	var stream bytes.Buffer
	for _, root := range r.Roots {
		stream.WriteString("---\n")
		stream.Write(kustomized(t, filepath.Join(dir, root)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) { // a failing seed fails again
		if !slices.Contains(r.Roots, filepath.Dir(name)) {
			stream.WriteString("---\n" + r.Files[name])
		}
	}
	var scanned report.Report
	out, _ := runOK(t, stream.String(), "scan", "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &scanned); err != nil {
		t.Fatal(err)
	}
	if v := scanned.Summary.Workloads; v.Ready+v.ReadyNotes != r.Pods || v.Stays+v.NotJudged+v.NothingToConvert != 0 {
		t.Errorf("%d pods have the verdicts %+v", r.Pods, v)
	}
	converted, _ := runOK(t, stream.String(), "convert", "-f", "-")
	again, _ := runOK(t, converted, "convert", "-f", "-")
	if diff := cmp.Diff(converted, again); diff != "" {
		t.Errorf("converting again (-before +after):\n%s", diff)
	}
	built := newBuilt(map[string]*resourceapi.DeviceClass{})
	built.add(t, []byte(converted))
	return built.check(t)
}

// read returns the files of a folder.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// builtObjects has what would be applied of one folder. The classes are those of all folders.
type builtObjects struct {
	pods      []builtPod
	templates map[string]*resourceapi.ResourceClaimTemplate
	classes   map[string]*resourceapi.DeviceClass
}

type builtPod struct {
	namespace string
	metadata  metav1.ObjectMeta
	spec      corev1.PodSpec
}

func newBuilt(classes map[string]*resourceapi.DeviceClass) *builtObjects {
	return &builtObjects{templates: map[string]*resourceapi.ResourceClaimTemplate{}, classes: classes}
}

// add decodes the documents of a text, strictly.
func (b *builtObjects) add(t *testing.T, text []byte) {
	t.Helper()
	for _, document := range translate.Documents(text) {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}
		decode := func(into any) {
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Errorf("%s %s: %v\n%s", meta.Kind, meta.Name, err, document)
			}
		}
		template := func(pod corev1.PodTemplateSpec) {
			b.pods = append(b.pods, builtPod{meta.Namespace, pod.ObjectMeta, pod.Spec})
		}
		if wrong := validation.IsDNS1123Subdomain(meta.Name); len(wrong) > 0 && meta.Kind != "Kustomization" {
			t.Errorf("%s %s: %v", meta.Kind, meta.Name, wrong)
		}
		switch meta.Kind {
		case "Pod":
			var o corev1.Pod
			decode(&o)
			b.pods = append(b.pods, builtPod{o.Namespace, o.ObjectMeta, o.Spec})
		case "Deployment":
			var o appsv1.Deployment
			decode(&o)
			template(o.Spec.Template)
		case "StatefulSet":
			var o appsv1.StatefulSet
			decode(&o)
			template(o.Spec.Template)
		case "DaemonSet":
			var o appsv1.DaemonSet
			decode(&o)
			template(o.Spec.Template)
		case "CronJob":
			var o batchv1.CronJob
			decode(&o)
			template(o.Spec.JobTemplate.Spec.Template)
		case "ResourceClaimTemplate":
			o := &resourceapi.ResourceClaimTemplate{}
			decode(o)
			b.templates[o.Namespace+"/"+o.Name] = o
		case "DeviceClass":
			o := &resourceapi.DeviceClass{}
			decode(o)
			b.classes[o.Name] = o
		}
	}
}

// check checks every pod and returns their number.
func (b *builtObjects) check(t *testing.T) int {
	t.Helper()
	for _, p := range b.pods {
		b.checkPod(t, p)
	}
	return len(b.pods)
}

// checkPod compares what the driver would attach to a pod with what the annotation requests.
func (b *builtObjects) checkPod(t *testing.T, p builtPod) {
	t.Helper()
	want, err := attachment.ParseSelections(p.metadata.Annotations[attachment.NetworksAnnotation], p.namespace)
	if err != nil {
		t.Fatal(err)
	}
	var got []attachment.Selection
	for _, c := range p.spec.ResourceClaims {
		template := b.templates[p.namespace+"/"+*c.ResourceClaimTemplateName]
		if template == nil {
			t.Errorf("namespace %s has no template %s", p.namespace, *c.ResourceClaimTemplateName)
			continue
		}
		requested, err := attachment.FromClaim(b.allocated(t, template.Spec.Spec, p.namespace), attachment.AnyNetwork)
		if err != nil {
			t.Error(err)
		}
		for _, r := range requested {
			got = append(got, r.Selection)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("annotation %s (-Multus +nadra):\n%s", p.metadata.Annotations[attachment.NetworksAnnotation], diff)
	}
	for _, c := range append(p.spec.InitContainers, p.spec.Containers...) {
		if len(c.Resources.Claims) != len(p.spec.ResourceClaims) {
			t.Errorf("container %s refers to the claims %v of %v", c.Name, c.Resources.Claims, p.spec.ResourceClaims)
		}
		for name := range c.Resources.Limits {
			for _, pool := range repository.Pools() {
				if string(name) == pool {
					t.Errorf("container %s still requests %s", c.Name, pool)
				}
			}
		}
	}
}

// allocated returns a claim as the scheduler would allocate it.
func (b *builtObjects) allocated(t *testing.T, spec resourceapi.ResourceClaimSpec, namespace string) *resourceapi.ResourceClaim {
	t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim"}, Spec: spec}
	var allocation resourceapi.DeviceAllocationResult
	for _, r := range spec.Devices.Requests {
		class := b.classes[r.Exactly.DeviceClassName]
		if class == nil {
			t.Errorf("there is no DeviceClass %s", r.Exactly.DeviceClassName)
			continue
		}
		for _, c := range class.Spec.Config {
			allocation.Config = append(allocation.Config, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: []string{r.Name}, DeviceConfiguration: c.DeviceConfiguration,
			})
		}
		allocation.Results = append(allocation.Results, resourceapi.DeviceRequestAllocationResult{
			Request: r.Name, Driver: v1alpha1.DriverName, Pool: "node", Device: "device",
		})
	}
	for _, c := range spec.Devices.Config {
		allocation.Config = append(allocation.Config, resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration,
		})
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: allocation}
	return claim
}
