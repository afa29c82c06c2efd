package chart

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../../manifests"
	dir       = manifests + "/chart"
)

// modes are the values of mode: the names of the overlays.
var modes = []string{"beside-multus", "driver-only", "drop-in"}

type (
	values  = map[string]any
	objects = map[string]map[string]any // by kind, namespace and name
)

func add(t *testing.T, into objects, text string) {
	t.Helper()
	var o map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if o == nil { // a template that renders to comments
		return
	}
	meta, _ := o["metadata"].(map[string]any)
	unfold(o)
	key := fmt.Sprint(o["kind"], " ", meta["namespace"], "/", meta["name"])
	if into[key] != nil {
		t.Errorf("%s is there twice", key)
	}
	into[key] = o
}

// unfold makes one line of expressions, because kustomize breaks folded lines at other
// places. No expression has a string with consecutive blanks.
func unfold(value any) any {
	switch v := value.(type) {
	case string:
		return strings.Join(strings.Fields(v), " ")
	case map[string]any:
		for k := range v {
			v[k] = unfold(v[k])
		}
	case []any:
		for i := range v {
			v[i] = unfold(v[i])
		}
	}
	return value
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart as `helm install` does with these values. files are the
// templates' results by name.
func render(c *chart.Chart, v values) (files map[string]string, err error) {
	release := chartutil.ReleaseOptions{Name: "nadra", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, v, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func fromChart(t *testing.T, v values) objects {
	t.Helper()
	files, err := render(load(t), v)
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, doc := range releaseutil.SplitManifests(text) {
			add(t, out, doc)
		}
	}
	return out
}

func fromKustomize(t *testing.T, overlay string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, overlay))
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for _, r := range built.Resources() {
		add(t, out, r.MustYaml())
	}
	return out
}

func TestChartIsTheOverlay(t *testing.T) {
	for overlay, v := range map[string]values{
		"../test/chart/testdata/default-networks":        {"controller": values{"defaultNetworks": []any{"infra/lan"}}},
		"../test/chart/testdata/beside-multus-options":   {"mode": "beside-multus", "controller": values{"certManager": true, "defaultNetworks": []any{"infra/lan"}}},
		"../build/release/overlays/drop-in-cert-manager": {"controller": values{"certManager": true}},
		"../build/release/overlays/drop-in-cni-plugins":  {"node": values{"cniImages": []any{values{"name": "reference", "image": "localhost/nadra-cni-plugins:dev"}}}},
		"../build/release/overlays/openshift":            {"mode": "beside-multus", "openshift": true},
		"beside-multus":                                  {"mode": "beside-multus"},
		"driver-only":                                    {"mode": "driver-only"},
		"drop-in":                                        {},
	} {
		t.Run(overlay, func(t *testing.T) {
			want, got := fromKustomize(t, overlay), fromChart(t, v)
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if diff := cmp.Diff(want[key], got[key]); diff != "" {
					t.Errorf("%s: -manifests/%s +manifests/chart:\n%s", key, overlay, diff)
				}
				delete(got, key)
			}
			if len(got) > 0 {
				t.Errorf("the chart alone has %q", slices.Sorted(maps.Keys(got)))
			}
			t.Logf("%d objects", len(want))
		})
	}
}

// TestDriverOnlyIsTheBase compares the mode driver-only with the base and the policy that
// restricts nodes to their own slices.
func TestDriverOnlyIsTheBase(t *testing.T) {
	want := fromKustomize(t, "base")
	maps.Copy(want, fromKustomize(t, "node-policies"))
	if diff := cmp.Diff(want, fromKustomize(t, "driver-only")); diff != "" {
		t.Error(diff)
	}
}

// TestCRDs compares the CRDs in crds/. Helm installs a missing CRD, and never removes one.
func TestCRDs(t *testing.T) {
	got := objects{}
	for _, crd := range load(t).CRDObjects() {
		add(t, got, string(crd.File.Data))
	}
	if diff := cmp.Diff(fromKustomize(t, "nad-crd"), got); diff != "" {
		t.Errorf("-manifests/nad-crd +manifests/chart/crds:\n%s", diff)
	}
}

func TestLint(t *testing.T) {
	for _, mode := range modes {
		linted := lint.All(dir, values{"mode": mode}, "default", true)
		for _, m := range linted.Messages {
			if m.Severity > support.InfoSev { // an icon is recommended
				t.Errorf("%s: %s", mode, m)
			}
		}
	}
}

// TestNamespaceIsAValue checks that all objects of the chart are in the namespace of the
// value, and none in that of the release.
func TestNamespaceIsAValue(t *testing.T) {
	for _, mode := range modes {
		for key, o := range fromChart(t, values{"mode": mode, "namespaces": values{"node": "other", "controller": "more", "create": false}}) {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"namespace: nadra\n", "namespace: default\n", "nadra-system", "serviceaccount:nadra:"} {
				if strings.Contains(string(text), n) {
					t.Errorf("%s: %s has %q", mode, key, n)
				}
			}
			if o["kind"] == "Namespace" {
				t.Errorf("%s: %s was not asked for", mode, key)
			}
		}
	}
}

// TestPartOf checks that kubectl nadra uninstall finds every object of the chart, also those that no overlay has.
func TestPartOf(t *testing.T) {
	all := values{
		"node":       values{"resourcePools": values{"configMaps": []any{values{"namespace": "sriov", "name": "config"}}, "policyNamespace": "sriov"}},
		"controller": values{"apiServers": []any{"192.0.2.0/24"}},
	}
	for _, mode := range modes {
		all["mode"] = mode
		for key, o := range fromChart(t, all) {
			if labels := path(t, o, "metadata", "labels"); labels["app.kubernetes.io/part-of"] != "nadra" {
				t.Errorf("%s: %s has labels %v", mode, key, labels)
			}
		}
	}
}

func TestNodeValues(t *testing.T) {
	for _, mode := range modes {
		got := fromChart(t, values{"mode": mode, "node": values{
			"image": "registry.example/nadra-node@sha256:1", "args": []any{"--hook-budget=500ms"},
			"exemptPods": []any{"kube-system/*", "a/b"}, "tolerations": nil, "resources": nil,
		}})
		spec := path(t, got["DaemonSet nadra/nadra-node"], "spec", "template", "spec")
		main := spec["containers"].([]any)[0].(map[string]any)
		args := main["args"].([]any)
		for _, want := range []string{"--host-root=/host", "--exempt-pods=kube-system/*,a/b", "--hook-budget=500ms"} {
			if !slices.Contains(args, any(want)) {
				t.Errorf("%s: args %v lack %s", mode, args, want)
			}
		}
		if main["image"] != "registry.example/nadra-node@sha256:1" || main["resources"] != nil || spec["tolerations"] != nil {
			t.Errorf("%s: container %v, tolerations %v", mode, main, spec["tolerations"])
		}
	}
}

// TestDirectories checks that a directory has its mount where its flag says, and that
// directories of the usual places have no flag.
func TestDirectories(t *testing.T) {
	got := fromChart(t, values{"node": values{"directories": values{"kubelet": "/srv/kubelet", "nri": "/run/nri-elsewhere"}}})
	spec := path(t, got["DaemonSet nadra/nadra-node"], "spec", "template", "spec")
	main := spec["containers"].([]any)[0].(map[string]any)
	want := []any{
		"--kubelet-plugins-dir=/srv/kubelet/plugins", "--kubelet-registry-dir=/srv/kubelet/plugins_registry",
		"--pod-resources-socket=/srv/kubelet/pod-resources/kubelet.sock", "--nri-socket=/run/nri-elsewhere/nri.sock",
	}
	flags := slices.DeleteFunc(slices.Clone(main["args"].([]any)), func(arg any) bool { return !strings.Contains(arg.(string), "=/") || arg == "--host-root=/host" })
	if diff := cmp.Diff(want, flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	mounts, volumes := map[string]any{}, map[string]any{}
	for _, m := range main["volumeMounts"].([]any) {
		mount := m.(map[string]any)
		mounts[mount["name"].(string)] = mount["mountPath"]
	}
	for _, v := range spec["volumes"].([]any) {
		volume := v.(map[string]any)
		if volume["hostPath"] != nil {
			volumes[volume["name"].(string)] = path(t, volume, "hostPath")["path"]
		}
	}
	wantVolumes := map[string]any{
		"host": "/", "state": "/var/lib/nadra", "plugins": "/srv/kubelet/plugins", "registry": "/srv/kubelet/plugins_registry",
		"nri": "/run/nri-elsewhere", "cdi": "/var/run/cdi",
	}
	if diff := cmp.Diff(wantVolumes, volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	wantVolumes["host"], wantVolumes["run"] = "/host", "/run/nadra"
	if diff := cmp.Diff(wantVolumes, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

// TestNodePort checks that the driver gets the port, and that two drivers can be on a node at a
// time: no port is declared, and the probes ask the driver in their own container.
func TestNodePort(t *testing.T) {
	got := fromChart(t, values{"node": values{"httpPort": 19078}})
	main := path(t, got["DaemonSet nadra/nadra-node"], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
	if !slices.Contains(main["args"].([]any), any("--http-address=:19078")) {
		t.Errorf("args are %v", main["args"])
	}
	if main["ports"] != nil {
		t.Errorf("the ports %v are declared", main["ports"])
	}
	for probe, asked := range map[string]string{"startupProbe": "started", "livenessProbe": "live", "readinessProbe": "ready"} {
		if diff := cmp.Diff([]any{"/nadra-node", "health", asked}, path(t, main, probe, "exec")["command"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", probe, diff)
		}
	}
}

// TestResourcePools checks that driver and controller get the same pools, and that pools of
// other namespaces come with the right to read them, and no other.
func TestResourcePools(t *testing.T) {
	got := fromChart(t, values{"node": values{"resourcePools": values{
		"configMaps": []any{
			values{"namespace": "kube-system", "name": "sriovdp-config", "prefix": "example.com"},
			values{"namespace": "sriov", "name": "device-plugin-config", "key": "node-1"},
		},
		"policyNamespace": "sriov",
	}}})
	main := path(t, got["DaemonSet nadra/nadra-node"], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
	for _, want := range []string{"--pool-config=kube-system/sriovdp-config=example.com", "--pool-config=sriov/device-plugin-config:node-1", "--sriov-policies=sriov"} {
		if !slices.Contains(main["args"].([]any), any(want)) {
			t.Errorf("args %v lack %s", main["args"], want)
		}
	}
	for key, want := range map[string][]any{
		"Role kube-system/nadra-node-sriovdp-config": {"sriovdp-config"},
		"Role sriov/nadra-node-device-plugin-config": {"device-plugin-config"},
		"Role sriov/nadra-node-policies":             nil,
	} {
		role, binding := got[key], got["RoleBinding"+strings.TrimPrefix(key, "Role")]
		if role == nil || binding == nil {
			t.Errorf("%s: role %v, binding %v", key, role, binding)
			continue
		}
		names, _ := role["rules"].([]any)[0].(map[string]any)["resourceNames"].([]any)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: names (-want +got):\n%s", key, diff)
		}
	}
}

func TestNamespaceIsolation(t *testing.T) {
	got := fromChart(t, values{"namespaceIsolation": true, "globalNamespaces": []any{"shared", "default"}})
	for _, key := range []string{"DaemonSet nadra/nadra-node", "Deployment nadra-system/nadra-controller"} {
		main := path(t, got[key], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
		for _, want := range []string{"--namespace-isolation", "--global-namespaces=shared,default"} {
			if !slices.Contains(main["args"].([]any), any(want)) {
				t.Errorf("%s: args %v lack %s", key, main["args"], want)
			}
		}
	}
}

func TestControllerValues(t *testing.T) {
	const deployment, budget = "Deployment nadra-system/nadra-controller", "PodDisruptionBudget nadra-system/nadra-controller"
	got := fromChart(t, values{"controller": values{
		"image": "registry.example/c:1", "args": []any{"--v=4"}, "replicas": 1, "tolerations": nil, "resources": nil,
		"defaultOwner": "nadra",
	}})
	spec := path(t, got[deployment], "spec", "template", "spec")
	main := spec["containers"].([]any)[0].(map[string]any)
	args := main["args"].([]any)
	if !slices.Contains(args, any("--v=4")) || !slices.Contains(args, any("--default-owner=nadra")) || main["image"] != "registry.example/c:1" || main["resources"] != nil || spec["tolerations"] != nil {
		t.Errorf("container %v, tolerations %v", main, spec["tolerations"])
	}
	if got[budget] != nil {
		t.Error("a node with the one replica could not be drained")
	}
	for key := range fromChart(t, values{"mode": "driver-only", "controller": values{"certManager": true}}) {
		if strings.Contains(key, "controller") || strings.Contains(key, "webhook") {
			t.Errorf("driver-only has %s", key)
		}
	}
}

// TestDefaultNetworks checks that nadra's own namespaces are always system namespaces, for the webhook of
// default networks, too. The controller adds its own itself.
func TestDefaultNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		values values
		want   []any
	}{
		"none":                   {nil, nil},
		"networks":               {values{"controller": values{"defaultNetworks": []any{"infra/lan", "infra/wan"}}}, []any{"--default-networks=infra/lan,infra/wan"}},
		"system namespaces":      {values{"controller": values{"systemNamespaces": []any{"kube-system", "cni"}}}, []any{"--system-namespaces=kube-system,cni,nadra"}},
		"no system namespaces":   {values{"controller": values{"systemNamespaces": []any{}}}, []any{"--system-namespaces=nadra"}},
		"the driver's namespace": {values{"namespaces": values{"node": "other"}}, []any{"--driver-namespace=other", "--system-namespaces=kube-system,other"}},
	} {
		main := path(t, fromChart(t, c.values)["Deployment nadra-system/nadra-controller"], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
		if diff := cmp.Diff(append([]any{"--namespace=$(NAMESPACE)"}, c.want...), main["args"]); diff != "" {
			t.Errorf("%s: flags (-want +got):\n%s", name, diff)
		}
	}
	got := fromChart(t, values{"namespaces": values{"node": "other"}, "controller": values{"defaultNetworks": []any{"infra/lan"}, "systemNamespaces": []any{"cni"}}})
	webhooks := got["MutatingWebhookConfiguration <nil>/nadra-controller"]["webhooks"].([]any)
	selector := path(t, webhooks[len(webhooks)-1].(map[string]any), "namespaceSelector")["matchExpressions"].([]any)[0].(map[string]any)
	if diff := cmp.Diff([]any{"cni", "other", "nadra-system"}, selector["values"]); diff != "" {
		t.Errorf("namespaces of the webhook (-want +got):\n%s", diff)
	}
}

// TestEachRightSaysWhy checks that a comment above each rule of a role says what it is for.
func TestEachRightSaysWhy(t *testing.T) {
	rules := 0
	err := filepath.WalkDir(manifests, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(file)
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			if !role.MatchString(doc) {
				continue
			}
			lines := strings.Split(doc, "\n")
			for i, line := range lines {
				if !strings.HasPrefix(line, "  - apiGroups:") {
					continue
				}
				rules++
				if !strings.HasPrefix(lines[i-1], "  # ") {
					t.Errorf("%s: no comment says why there is %s", file, strings.Join(lines[i:min(i+3, len(lines))], " "))
				}
			}
		}
		return err
	})
	if err != nil || rules < 40 {
		t.Errorf("%d rules, %v", rules, err)
	}
}

var role = regexp.MustCompile(`(?m)^kind: (Cluster)?Role$`)

func path(t *testing.T, o map[string]any, names ...string) map[string]any {
	t.Helper()
	for _, n := range names {
		next, ok := o[n].(map[string]any)
		if !ok {
			t.Fatalf("no %s in %v", n, slices.Sorted(maps.Keys(o)))
		}
		o = next
	}
	return o
}

// TestWrongValues checks that the schema names the values that it refuses.
func TestWrongValues(t *testing.T) {
	reference := values{"name": "reference", "image": "localhost/nadra-cni-plugins:dev"}
	for _, tt := range []struct {
		name   string
		values values
		says   string
	}{
		{"mode", values{"mode": "beside"}, "mode"},
		{"unknown", values{"nodes": values{}}, "nodes"},
		{"unknown below", values{"node": values{"tag": "v1"}}, "tag"},
		{"namespace", values{"namespaces": values{"node": "Not_a_label"}}, "/namespaces/node"},
		{"args", values{"node": values{"args": []any{"v=4"}}}, "/node/args/0"},
		{"directory", values{"node": values{"directories": values{"kubelet": "srv/kubelet"}}}, "/node/directories/kubelet"},
		{"port", values{"node": values{"httpPort": 0}}, "/node/httpPort"},
		{"exempt", values{"node": values{"exemptPods": []any{"dns"}}}, "/node/exemptPods/0"},
		{"replicas", values{"controller": values{"replicas": 0}}, "/controller/replicas"},
		{"owner", values{"controller": values{"defaultOwner": "me"}}, "/controller/defaultOwner"},
		{"default network", values{"controller": values{"defaultNetworks": []any{"lan"}}}, "/controller/defaultNetworks/0"},
		{"system namespace", values{"controller": values{"systemNamespaces": []any{"a/b"}}}, "/controller/systemNamespaces/0"},
		{"pull policy", values{"node": values{"imagePullPolicy": "Sometimes"}}, "/node/imagePullPolicy"},
		{"images on OpenShift", values{"mode": "beside-multus", "openshift": true, "node": values{"cniImages": []any{reference}}}, "openshift allows no image volumes"},
		{"an image twice", values{"node": values{"cniImages": []any{reference, reference}}}, "two entries of the name reference"},
		{"an order without an image", values{"node": values{"cniImages": []any{reference}, "args": []any{"--cni-bin-dirs=/var/lib/cni/bin"}}}, "without image:reference"},
		{"an image of another type", values{"node": values{"image": values{"tag": "v1"}}}, "/node/image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render(load(t), tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error lacks %q: %v", tt.says, err)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	for _, mode := range modes {
		files, err := render(load(t), values{"mode": mode})
		if err != nil {
			t.Fatal(err)
		}
		if notes := files["nadra/templates/NOTES.txt"]; !strings.Contains(notes, mode) {
			t.Errorf("notes:\n%s", notes)
		}
	}
}
