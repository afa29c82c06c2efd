package doctor

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/probe"
)

// others are programs that have Multus in their names and are not Multus.
var others = []string{"networkpolicy", "dynamic-networks", "admission", "whereabouts", "metrics", "additional-cni"}

// isMultus reports whether a DaemonSet is Multus, by its name or its image.
func isMultus(d *appsv1.DaemonSet) bool {
	is := func(name string) bool {
		return strings.Contains(name, "multus") && !slices.ContainsFunc(others, func(o string) bool { return strings.Contains(name, o) })
	}
	return is(d.Name) || !slices.ContainsFunc(others, func(o string) bool { return strings.Contains(d.Name, o) }) &&
		slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return is(path.Base(c.Image)) })
}

// multusOf returns the flavour and the settings of a DaemonSet of Multus.
func (r *reader) multusOf(ctx context.Context, d *appsv1.DaemonSet) Multus {
	out := Multus{Namespace: d.Namespace, DaemonSet: d.Name}
	words := wordsOf(d)
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		out.Image = containers[0].Image
	}
	out.Thick = slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(w, "multus-daemon") || strings.Contains(w, "-thick")
	})
	// The thin flavour takes its settings from flags, unless it has a file.
	if file := flagOf(words, "multus-conf-file"); !out.Thick && (file == "" || file == "auto") {
		isolated, _ := strconv.ParseBool(flagOf(words, "namespace-isolation"))
		out.Settings = &probe.MultusSettings{
			NamespaceIsolation: isolated,
			GlobalNamespaces:   flagOf(words, "global-namespaces"),
		}
		return out
	}
	out.Settings, out.ConfigMap = r.mountedSettings(ctx, d)
	return out
}

// wordsOf returns images, commands and arguments. It splits shell scripts into words.
func wordsOf(d *appsv1.DaemonSet) []string {
	var out []string
	for _, c := range d.Spec.Template.Spec.Containers {
		out = append(out, c.Image)
		for _, arg := range slices.Concat(c.Command, c.Args) {
			out = append(out, strings.Fields(arg)...)
		}
	}
	return out
}

// flagOf returns the value of a flag, or "true" for a flag without a value.
func flagOf(words []string, name string) string {
	for i, w := range words {
		flag, value, hasValue := strings.Cut(strings.TrimLeft(w, "-"), "=")
		switch {
		case flag != name || !strings.HasPrefix(w, "-"):
		case hasValue:
			return value
		case i+1 < len(words) && !strings.HasPrefix(words[i+1], "-"):
			return words[i+1]
		default:
			return "true"
		}
	}
	return ""
}

// mountedSettings reads Multus' settings from a ConfigMap that the DaemonSet mounts.
func (r *reader) mountedSettings(ctx context.Context, d *appsv1.DaemonSet) (*probe.MultusSettings, string) {
	for _, volume := range d.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		m, err := r.Kube.CoreV1().ConfigMaps(d.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if r.failed(PartMultus, "", err, "the right to get configmaps of namespace "+d.Namespace+"; or --probe") {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			if s := settingsOf(key, m.Data[key]); s != nil {
				return s, m.Namespace + "/" + m.Name
			}
		}
	}
	return nil, ""
}

// settingsOf parses a file of Multus' configuration. It returns nil for other files.
func settingsOf(key, text string) *probe.MultusSettings {
	if key == "daemon-config.json" {
		s, err := probe.ParseMultusSettings([]byte(text))
		if err != nil {
			return nil
		}
		return s
	}
	if !json.Valid([]byte(text)) {
		return nil
	}
	return probe.ParseConf(key, []byte(text)).Multus
}
