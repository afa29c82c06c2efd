package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// HookPoint says when a hook runs.
type HookPoint string

// The points at which hooks run.
const (
	BeforeWave HookPoint = "before-wave" // before anything of a wave changes
	AfterWave  HookPoint = "after-wave"  // after the last node of a wave has moved
)

// Hook is what runs before or after each wave: a command on the machine that carries out
// the plan, or a Job in the cluster.
type Hook struct {
	// Exec is a command line of sh.
	Exec string `json:"exec,omitempty"`
	// Job is the manifest of a Job. Each run of the hook creates one.
	Job *batchv1.Job `json:"job,omitempty"`
}

// ParseHook parses exec:COMMAND LINE or job:FILE, of which read returns the content.
func ParseHook(text string, read func(file string) ([]byte, error)) (*Hook, error) {
	kind, value, _ := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	switch {
	case kind != "exec" && kind != "job":
		return nil, errors.New("it is neither a command nor a Job: use exec:COMMAND LINE or job:FILE")
	case value == "":
		return nil, fmt.Errorf("nothing follows %q: use exec:COMMAND LINE or job:FILE", kind+":")
	case kind == "exec":
		return &Hook{Exec: value}, nil
	}
	manifest, err := read(value)
	if err != nil {
		return nil, err
	}
	job, err := parseJob(manifest)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", value, err)
	}
	return &Hook{Job: job}, nil
}

// parseJob parses the manifest of a Job. It rejects unknown fields, which may be misspelt.
func parseJob(manifest []byte) (*batchv1.Job, error) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(manifest, &head); err != nil {
		return nil, fmt.Errorf("invalid YAML: %w", err)
	}
	if head.APIVersion != "batch/v1" || head.Kind != "Job" {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not those of a Job: use a file with one object of batch/v1, Job", head.APIVersion, head.Kind)
	}
	job := &batchv1.Job{}
	if err := yaml.UnmarshalStrict(manifest, job); err != nil {
		return nil, fmt.Errorf("reading the Job: %w", err)
	}
	return job, (&Hook{Job: job}).validate()
}

// validate rejects hooks that cannot run.
func (h *Hook) validate() error {
	switch {
	case h == nil:
		return nil
	case (h.Exec == "") == (h.Job == nil):
		return errors.New("it must be either a command or a Job")
	case h.Job == nil:
		return nil
	case h.Job.Namespace == "":
		return errors.New("metadata.namespace is empty: name the namespace in which the Job runs")
	case len(h.Job.Spec.Template.Spec.Containers) == 0:
		return errors.New("spec.template.spec.containers is empty: add the container that does the work")
	}
	if wrong := validation.IsDNS1123Subdomain(jobBase(h.Job)); len(wrong) > 0 {
		return fmt.Errorf("metadata.name is %q: %s", jobBase(h.Job), wrong[0])
	}
	return nil
}

// maxJobBase is the longest part of a manifest's name in names of Jobs: with it, a name is
// a valid value of the label of the Job's pods.
const maxJobBase = 40

// jobBase returns what the names of a manifest's Jobs begin with.
func jobBase(job *batchv1.Job) string {
	base := job.Name
	if base == "" {
		base = strings.TrimRight(job.GenerateName, "-")
	}
	if base == "" {
		base = "nadra-hook"
	}
	if len(base) > maxJobBase {
		base = strings.TrimRight(base[:maxJobBase], "-.")
	}
	return base
}

// String describes the hook in a line. It escapes characters that could hide a part of the
// text on a terminal, because a cluster may be the source of the hook.
func (h *Hook) String() string {
	switch {
	case h == nil:
		return "none"
	case h.Job != nil:
		return "job " + inLine(h.Job.Namespace+"/"+jobBase(h.Job))
	}
	return "exec:" + inLine(h.Exec)
}

// inLine returns a text as Visible does, in one line.
func inLine(text string) string { return strings.ReplaceAll(Visible(text), "\n", `\n`) }

// Visible escapes characters that a terminal does not print as they are, such as control
// characters and marks of the text's direction. It keeps line breaks.
func Visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || strconv.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return out.String()
}

// HookRun is one run of a hook.
type HookRun struct {
	Point HookPoint
	// Plan is the ConfigMap with the plan, NAMESPACE/NAME. Cluster is the plan's source.
	Plan, Cluster string
	// Number counts the waves from 1 to Waves.
	Number, Waves int
	Wave          Wave
}

// NewHookRun returns the run of a hook for the wave with an index.
func NewHookRun(point HookPoint, p *Plan, index int, configMap string) HookRun {
	return HookRun{Point: point, Plan: configMap, Cluster: p.Source, Number: index + 1, Waves: len(p.Waves), Wave: p.Waves[index]}
}

// Env returns the environment variables that a hook gets, NAME=VALUE.
func (r HookRun) Env() []string {
	var nodes []string
	for _, n := range r.Wave.Nodes {
		nodes = append(nodes, n.Name)
	}
	return []string{
		"NADRA_HOOK=" + string(r.Point),
		"NADRA_WAVE=" + strconv.Itoa(r.Number),
		"NADRA_WAVES=" + strconv.Itoa(r.Waves),
		"NADRA_WAVE_NAME=" + r.Wave.Name,
		"NADRA_NODES=" + strings.Join(nodes, " "),
		"NADRA_NAMESPACES=" + strings.Join(r.Wave.Namespaces, " "),
		"NADRA_CLUSTER=" + r.Cluster,
		"NADRA_PLAN=" + r.Plan,
	}
}

// The labels of a hook's Jobs, by which a later run finds those of an interrupted one.
const (
	HookLabel     = "nadra.dev/upgrade-hook"
	HookWaveLabel = "nadra.dev/upgrade-wave"
)

// NewJob returns the Job of a run of a hook. The API server completes its name. The Job ends
// within seconds, even if the process that waits for it does not live to delete it.
func (r HookRun) NewJob(manifest *batchv1.Job, seconds int64) *batchv1.Job {
	from := manifest.DeepCopy()
	out := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: fmt.Sprintf("%s-%d-%s-", jobBase(from), r.Number, strings.TrimSuffix(string(r.Point), "-wave")),
			Namespace:    from.Namespace, Labels: from.Labels, Annotations: from.Annotations,
		},
		Spec: from.Spec,
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels["app.kubernetes.io/managed-by"] = "kubectl-nadra"
	out.Labels[HookLabel], out.Labels[HookWaveLabel] = string(r.Point), strconv.Itoa(r.Number)
	if limit := out.Spec.ActiveDeadlineSeconds; limit == nil || *limit > seconds {
		out.Spec.ActiveDeadlineSeconds = &seconds
	}
	pod := &out.Spec.Template.Spec
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].Env = r.withEnv(containers[i].Env)
		}
	}
	return out
}

// withEnv adds the hook's variables to those of a container, whose other variables may
// refer to them.
func (r HookRun) withEnv(env []corev1.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range r.Env() {
		name, value, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		// $(NAME) in a value would be replaced by another variable.
		out = append(out, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")})
	}
	return append(out, env...)
}
