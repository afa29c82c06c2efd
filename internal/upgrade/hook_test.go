package upgrade

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const jobManifest = `
apiVersion: batch/v1
kind: Job
metadata: {name: silence-alerts, namespace: ops, labels: {team: net}, resourceVersion: "7", uid: abc}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: wait, image: tools}]
      containers:
      - name: silence
        image: tools
        args: ["$(NADRA_WAVE_NAME)"]
        env: [{name: NADRA_WAVE, value: mine}, {name: URL, value: "http://alerts/$(NADRA_WAVE)"}]
`

// hookRun is the run of a hook before the second wave.
var hookRun = NewHookRun(BeforeWave, &Plan{Source: "cluster lab", Waves: []Wave{
	{Name: "wave-1"}, {Name: "wave-$(2)", Nodes: []NodeShare{{Name: "a"}, {Name: "b"}}, Namespaces: []string{"core", "ran"}},
}}, 1, "nadra-system/nadra-upgrade")

func TestParseHook(t *testing.T) {
	read := func(file string) ([]byte, error) {
		switch file {
		case "job.yaml":
			return []byte(jobManifest), nil
		case "misspelt.yaml":
			return []byte(strings.Replace(jobManifest, "backoffLimit", "backofLimit", 1)), nil
		case "pod.yaml":
			return []byte("apiVersion: v1\nkind: Pod\n"), nil
		case "nowhere.yaml":
			return []byte(strings.Replace(jobManifest, "namespace: ops, ", "", 1)), nil
		case "empty.yaml":
			return []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ops}\n"), nil
		case "broken.yaml":
			return []byte("a: b: c"), nil
		}
		return nil, errors.New("no such file")
	}
	for text, want := range map[string]string{"exec:a\nb\x1b": `exec:a\nb\x1b`, "exec: notify --wave $NADRA_WAVE ": "exec:notify --wave $NADRA_WAVE", "job:job.yaml": "job ops/silence-alerts"} {
		hook, err := ParseHook(text, read)
		if err != nil || hook.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, hook, err, want)
		}
	}
	for text, want := range map[string]string{
		"notify":             "it is neither a command nor a Job: use exec:",
		"sh:notify":          "it is neither a command nor a Job: use exec:",
		"exec: ":             `nothing follows "exec:": use`,
		"job:":               `nothing follows "job:"`,
		"job:absent.yaml":    "no such file",
		"job:broken.yaml":    "file broken.yaml: invalid YAML",
		"job:pod.yaml":       `apiVersion "v1" and kind "Pod" are not those of a Job`,
		"job:misspelt.yaml":  `unknown field "backofLimit"`,
		"job:nowhere.yaml":   "file nowhere.yaml: metadata.namespace is empty: name the namespace",
		"job:empty.yaml":     "spec.template.spec.containers is empty",
		"exec\u202e:reverse": "it is neither a command nor a Job: use exec:",
	} {
		if _, err := ParseHook(text, read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// A Job of a hook has a name and labels of the run, variables in all containers, and a
// deadline. Nothing that belongs to the object of the manifest is left.
func TestNewJob(t *testing.T) {
	manifest, err := parseJob([]byte(jobManifest))
	if err != nil {
		t.Fatal(err)
	}
	before := manifest.DeepCopy()
	job := hookRun.NewJob(manifest, 1800)
	if diff := cmp.Diff(before, manifest); diff != "" {
		t.Errorf("the manifest has changed (-want +got):\n%s", diff)
	}
	want := metav1.ObjectMeta{GenerateName: "silence-alerts-2-before-", Namespace: "ops", Labels: map[string]string{
		"team": "net", "app.kubernetes.io/managed-by": "kubectl-nadra", HookLabel: "before-wave", HookWaveLabel: "2",
	}}
	if diff := cmp.Diff(want, job.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	variables := []corev1.EnvVar{
		{Name: "NADRA_HOOK", Value: "before-wave"},
		{Name: "NADRA_WAVE", Value: "2"},
		{Name: "NADRA_WAVES", Value: "2"},
		{Name: "NADRA_WAVE_NAME", Value: "wave-$$(2)"},
		{Name: "NADRA_NODES", Value: "a b"},
		{Name: "NADRA_NAMESPACES", Value: "core ran"},
		{Name: "NADRA_CLUSTER", Value: "cluster lab"},
		{Name: "NADRA_PLAN", Value: "nadra-system/nadra-upgrade"},
	}
	pod := job.Spec.Template.Spec
	if diff := cmp.Diff(variables, pod.InitContainers[0].Env); diff != "" {
		t.Errorf("variables of the init container (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(variables, corev1.EnvVar{Name: "URL", Value: "http://alerts/$(NADRA_WAVE)"}), pod.Containers[0].Env); diff != "" {
		t.Errorf("variables of the container (-want +got):\n%s", diff)
	}
	if *job.Spec.ActiveDeadlineSeconds != 1800 || *job.Spec.BackoffLimit != 0 {
		t.Errorf("spec %+v", job.Spec)
	}
	manifest.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	if job := hookRun.NewJob(manifest, 1800); *job.Spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("deadline %d, want the manifest's", *job.Spec.ActiveDeadlineSeconds)
	}
}

// The name of a Job, with the five characters that make it unique, is a valid label.
func TestJobNames(t *testing.T) {
	for name, want := range map[string]string{"": "nadra-hook-2-before-", strings.Repeat("a.", 60): strings.TrimRight(strings.Repeat("a.", 20), ".") + "-2-before-"} {
		job := hookRun.NewJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}, 60)
		if job.GenerateName != want || len(job.GenerateName)+5 > 63 {
			t.Errorf("%q: %q, want %q", name, job.GenerateName, want)
		}
	}
	if job := hookRun.NewJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "gate-"}}, 60); job.GenerateName != "gate-2-before-" {
		t.Errorf("%q", job.GenerateName)
	}
}

// What a terminal would not show is escaped.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, ü\nline": "plain text, ü\nline",
		"rm -rf /\r\x1b[2K":   `rm -rf /\r\x1b[2K`,
		"a\u202eb\u200bc\td":  `a\u202eb\u200bc\td`,
		"\xff":                "\ufffd",
		"it's \"quoted\" \\n": "it's \"quoted\" \\n",
		"quote'":              "quote'",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
