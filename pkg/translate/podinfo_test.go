package translate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPodInfoIsAVolume checks that the API's type accepts all fields of the volume.
func TestPodInfoIsAVolume(t *testing.T) {
	pod := `{"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}}, "spec": {
		"containers": [{"name": "a", "resources": {"limits": {"hugepages-1Gi": "1Gi"}}}], "volumes": [{"name": "x"}]}}`
	got, err := Pod([]byte(pod), Options{Namespace: "shop", Pools: true, Lookup: lookup("intel.com/vf")})
	if err != nil {
		t.Fatal(err)
	}
	var volume corev1.Volume
	for _, e := range got.Edits {
		if e.Path.String() != "spec.volumes[-]" {
			continue
		}
		raw, err := json.Marshal(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&volume); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
	}
	field := func(name string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: name, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata." + name}}
	}
	pages := func(of string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: "hugepages_1G_" + of + "_a", ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: "a", Resource: of + "s.hugepages-1Gi", Divisor: resource.MustParse("1Mi"),
		}}
	}
	want := corev1.Volume{Name: "podnetinfo", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{field("labels"), field("annotations"), pages("request"), pages("limit")},
	}}}
	if diff := cmp.Diff(want, volume); diff != "" {
		t.Error(diff)
	}
}

// TestPodInfoShapes checks edits at the same place of the text, after containers and pods that end in
// different ways.
func TestPodInfoShapes(t *testing.T) {
	for _, tail := range []string{
		"    env:\n    - name: A\n      value: b\n",
		"    env:\n      - name: A\n        value: b",
		"    volumeMounts:\n    - name: x\n      mountPath: /x\n",
		"    env: []\n    volumeMounts:\n",
		"    env: [{name: A}]\n    volumeMounts: [{name: x, mountPath: /x}]",
		"    volumeMounts:\n    - mountPath: /x\n      name: x # c\n      # d\n",
		"  volumes:\n  - name: x\n",
		"  volumes: null\n  nodeSelector:\n",
		"  nodeSelector:\n    a: b",
	} {
		for _, resources := range []string{"", "    resources:\n      limits:\n        hugepages-1Gi: 1Gi\n"} {
			shape(t, poolOfShapes+shapeHeads[0]+resources+tail)
		}
	}
}
