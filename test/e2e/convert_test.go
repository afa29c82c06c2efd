//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/repository"
)

// TestConvertedCorpusIsAccepted checks that the API server accepts the converted manifests
// of other projects. It may report errors only if it reports them about the originals, too,
// for example kinds that it does not serve.
func TestConvertedCorpusIsAccepted(t *testing.T) {
	dir := os.Getenv("NADRA_CORPUS")
	if dir == "" {
		t.Skip("NADRA_CORPUS is not set: no real manifests to read")
	}
	f := setup(t, "accepted")
	projects, err := readProjects(dir)
	f.Must(err)
	f.createNamespacesOf(projects)
	a := f.accepts(projects)
	t.Logf("%d workloads converted; a server-side dry run accepts all %d created objects and %d of the converted files' objects; "+
		"%d complaints, all of which the originals have, too", a.workloads, a.created, a.accepted, a.foreign)
	if a.workloads < 80 || a.accepted < 80 {
		t.Errorf("%d workloads and %d accepted objects are fewer than the corpus has", a.workloads, a.accepted)
	}
}

// TestConvertedRepositoriesAreAccepted checks the same of random repositories, about which the API
// server may report nothing.
func TestConvertedRepositoriesAreAccepted(t *testing.T) {
	f := setup(t, "accepted-random")
	var projects []project
	pods := 0
	for seed := range uint64(20) {
		r := repository.New(seed)
		pods += r.Pods
		p := project{name: fmt.Sprintf("seed %d", seed)}
		for _, name := range slices.Sorted(maps.Keys(r.Files)) {
			p.files = append(p.files, translate.File{Name: name, Data: []byte(r.Files[name])})
		}
		projects = append(projects, p)
	}
	f.createNamespacesOf(projects)
	if a := f.accepts(projects); a.workloads != pods || a.foreign > 0 {
		t.Errorf("%d of %d workloads were converted, with %d complaints", a.workloads, pods, a.foreign)
	}
}

// accepted counts what the API server accepts.
type accepted struct {
	workloads, created, accepted int
	// foreign complaints are about the originals, too.
	foreign int
}

// accepts converts projects, and checks that the API server accepts the created objects and the changed
// files.
func (f *fixture) accepts(projects []project) (a accepted) {
	f.Helper()
	for _, project := range projects {
		result := translate.Convert(translate.Input{Files: project.files, Options: translate.Options{Pools: true}})
		a.created += f.acceptsCreated(project.name, result.Created)
		for i, file := range result.Files {
			changed := 0
			for _, w := range result.Workloads {
				if w.Changed && w.Position.File == file.Name {
					changed++
				}
			}
			if changed == 0 {
				continue
			}
			a.workloads += changed
			ok, complaints := f.dryRun(file.Data)
			a.accepted, a.foreign = a.accepted+ok, a.foreign+len(complaints)
			f.hasAll(file.Name, project.files[i].Data, complaints)
		}
	}
	return a
}

// acceptsCreated checks that the API server accepts all of a project's created objects, and
// returns their number.
func (f *fixture) acceptsCreated(project string, created []translate.Created) int {
	f.Helper()
	if len(created) == 0 {
		return 0
	}
	var text []byte
	for _, c := range created {
		text = append(append(text, "---\n"...), c.YAML()...)
	}
	ok, complaints := f.dryRun(text)
	if ok != len(created) {
		f.Errorf("%s: %d of %d created objects are accepted:\n%s", project, ok, len(created), strings.Join(complaints, "\n"))
	}
	return ok
}

// hasAll checks that the API server reports all complaints about the original, too.
func (f *fixture) hasAll(name string, original []byte, complaints []string) {
	f.Helper()
	if len(complaints) == 0 {
		return
	}
	_, before := f.dryRun(original)
	for _, complaint := range complaints {
		if !slices.Contains(before, complaint) {
			f.Errorf("%s: the API server reports about the conversion, and not about the original:\n%s", name, complaint)
		}
	}
}

// project has the manifests of one folder.
type project struct {
	name  string
	files []translate.File
}

func readProjects(dir string) ([]project, error) {
	var out []project
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		if len(out) == 0 || out[len(out)-1].name != name {
			out = append(out, project{name: name})
		}
		last := &out[len(out)-1]
		last.files = append(last.files, translate.File{Name: filepath.Join(name, entry.Name()), Data: text})
		return nil
	})
	return out, err
}

var namespaceForm = regexp.MustCompile(`(?m)^\s+namespace: "?([a-z0-9-]+)"?\s*$`)

func (f *fixture) createNamespacesOf(projects []project) {
	f.Helper()
	names := map[string]bool{}
	for _, p := range projects {
		for _, file := range p.files {
			for _, found := range namespaceForm.FindAllStringSubmatch(string(file.Data), -1) {
				names[found[1]] = true
			}
		}
	}
	for name := range names {
		if _, err := f.Cluster.Kubectl(f.Ctx, "get", "namespace", name); err == nil {
			continue
		}
		f.Must(f.CreateNamespace(f.Ctx, name))
		f.Cleanup(func() {
			if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", name, "--wait=false"); err != nil {
				f.Error(err)
			}
		})
	}
}

// dryRun makes the API server check manifests, and returns how many objects it accepts and
// its errors about others.
func (f *fixture) dryRun(manifests []byte) (accepted int, complaints []string) {
	verb := "apply"
	if bytes.Contains(manifests, []byte("generateName:")) {
		verb = "create" // apply cannot compare it with an object
	}
	command := f.Cluster.ControlPlane().Command(f.Ctx, "kubectl", verb, "--dry-run=server", "-f", "-")
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(manifests), &out, &errs
	if err := f.Cluster.ControlPlane().Run(command); err != nil && !errors.As(err, new(*exec.ExitError)) {
		f.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(errs.String()), "\n") {
		if line != "" && !strings.HasPrefix(line, "Warning:") {
			complaints = append(complaints, line)
		}
	}
	return strings.Count(out.String(), "(server dry run)"), complaints
}

// TestConvertOnALiveCluster converts a workload of a live cluster. Unconverted it gets no
// network; converted it must get one, and another conversion must change nothing.
func TestConvertOnALiveCluster(t *testing.T) {
	f := setup(t, "converted")
	f.bridge("br-conv")
	f.nad("net", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-conv","ipam":{}}`)
	f.Must(f.Published(f.Ctx, "converted/net"))
	f.Must(f.Apply(f.Ctx, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: converted}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {k8s.v1.cni.cncf.io/networks: net@data}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: %q, command: [sleep, infinity]}
`, cluster.TestImage)))

	// Scan it, alone and with the whole cluster.
	f.nadra(0, "scan", "-n", "converted").prints("deploy/web")
	f.nadra(0, "scan", "-n", "converted", "-o", "json").scanned(report.Verdicts{Ready: 1})
	f.nadra(0, "scan", "-A", "-o", "json", "--fail-on=never").prints(`"kind": "ScanReport"`, `"name": "web"`)
	f.nadra(0, "scan", "deploy/web", "-n", "converted", "-o", "json").scanned(report.Verdicts{Ready: 1})

	// Live objects in a file, as kubectl gets them, are the same to scan and convert.
	live := filepath.Join(t.TempDir(), "live.yaml")
	f.Must(os.WriteFile(live, []byte(f.Kubectl("get", "deployments,network-attachment-definitions", "-o", "yaml")), 0o644))
	f.nadra(0, "scan", "-f", live, "-o", "json").scanned(report.Verdicts{Ready: 1})
	f.nadra(0, "convert", "-f", live).prints("resourceClaims:", "kind: ResourceClaimTemplate", "kind: DeviceClass")

	// Show the changes, then apply them.
	f.nadra(1, "convert", "--diff", "deploy/web", "-n", "converted").prints("+      resourceClaims:", "+kind: ResourceClaimTemplate", "+kind: DeviceClass")
	converted := f.nadra(0, "convert", "deploy/web", "-n", "converted")
	f.Must(f.Apply(f.Ctx, converted.Out))
	f.nadra(0, "convert", "--diff", "deploy/web", "-n", "converted").none()
	f.nadra(0, "convert", "deploy/web", "-n", "converted").none()

	// It runs, with the network.
	if out, err := f.Cluster.Kubectl(f.Ctx, "-n", "converted", "scale", "deploy/web", "--replicas=1"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := f.Cluster.Kubectl(f.Ctx, "-n", "converted", "rollout", "status", "deploy/web", "--timeout=90s"); err != nil {
		t.Fatal(err, out)
	}
	links, err := f.Cluster.Kubectl(f.Ctx, "-n", "converted", "exec", "deploy/web", "--", "ip", "link", "show", "data")
	if err != nil || !strings.Contains(links, "data") {
		t.Errorf("the pod has no interface data: %v\n%s", err, links)
	}
	f.nadra(0, "scan", "-n", "converted").prints("deploy/web")
	if out, err := f.Cluster.Kubectl(f.Ctx, "-n", "converted", "delete", "deploy/web", "--timeout=60s"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := f.Cluster.Kubectl(f.Ctx, "delete", "deviceclass", "net.converted.nad.nadra.dev"); err != nil {
		t.Fatal(err, out)
	}
}

// printed is a command with its output.
type printed struct {
	f    *fixture
	args []string
	lab.Output
}

// nadra runs kubectl-nadra and checks its exit code.
func (f *fixture) nadra(code int, args ...string) printed {
	f.Helper()
	out, err := f.Nadra(f.Ctx, args...)
	f.Must(err)
	if out.Code != code {
		f.Errorf("kubectl nadra %v: exit code %d, want %d\n%s%s", args, out.Code, code, out.Out, out.Err)
	}
	return printed{f, args, out}
}

// prints checks that standard output contains texts.
func (s printed) prints(texts ...string) {
	s.f.Helper()
	for _, text := range texts {
		if !strings.Contains(s.Out, text) {
			s.f.Errorf("kubectl nadra %v does not print %q:\n%s%s", s.args, text, s.Out, s.Err)
		}
	}
}

// scanned checks that standard output is a scan's report with these counts of workloads.
func (s printed) scanned(want report.Verdicts) {
	s.f.Helper()
	var r report.Report
	s.f.Must(json.Unmarshal([]byte(s.Out), &r))
	if r.Kind != report.Kind || r.Summary.Workloads != want {
		s.f.Errorf("kubectl nadra %v reports the workloads %+v, want %+v:\n%s", s.args, r.Summary.Workloads, want, s.Out)
	}
}

// none checks that standard output is empty.
func (s printed) none() {
	s.f.Helper()
	if s.Out != "" {
		s.f.Errorf("kubectl nadra %v prints:\n%s%s", s.args, s.Out, s.Err)
	}
}
