package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// corpusEnv is the environment variable with a folder of public manifests. They are not
// part of the repository, because the licences of many do not allow it.
const corpusEnv = "NADRA_CORPUS"

// corpus has the content of a folder of manifests.
type corpus struct {
	networks []placed
	pods     []placedPod
	cases    []Case
	// about describes how many of the cases were converted, and how many pods make no case.
	about string
}

// placed is a NAD with its file.
type placed struct {
	Network
	file string
}

// placedPod is a pod, or a workload's template of one.
type placedPod struct {
	namespace, file string
	annotations     map[string]string
	// templates are the templates of the pod's claims.
	templates []string
	manifest  manifest
}

// corpusCases makes a case of each pod whose networks are all in the corpus.
func corpusCases(dir string) (*corpus, error) {
	c := &corpus{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return c.read(path, relative)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the corpus: %w", err)
	}
	return c, c.makeCases()
}

func (c *corpus) read(path, name string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var tree any
		if yaml.Unmarshal(doc, &tree) != nil {
			continue
		}
		before := len(c.pods)
		c.collect(name, "", tree)
		for i := range c.pods[before:] {
			c.pods[before+i].manifest = manifest{text: doc, index: i}
		}
	}
}

// collect walks an object and adds the NADs and pods in it. Pods are nested in many kinds
// of objects, and have their namespace.
func (c *corpus) collect(file, namespace string, v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			c.collect(file, namespace, item)
		}
	case map[string]any:
		metadata, _ := v["metadata"].(map[string]any)
		if own, ok := metadata["namespace"].(string); ok {
			namespace = own
		}
		annotations := texts(metadata["annotations"])
		kind, _ := v["kind"].(string)
		switch {
		case kind == "NetworkAttachmentDefinition":
			name, _ := metadata["name"].(string)
			spec, _ := v["spec"].(map[string]any)
			config, _ := spec["config"].(string)
			c.networks = append(c.networks, placed{Network{namespace, name, config, annotations[attachment.ResourceNameAnnotation]}, file})
			return
		case (kind == "Pod" || kind == "") && annotations[attachment.NetworksAnnotation] != "":
			c.pods = append(c.pods, placedPod{namespace: namespace, file: file, annotations: annotations, templates: templatesOf(v)})
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c.collect(file, namespace, v[key])
		}
	}
}

func texts(v any) map[string]string {
	out := map[string]string{}
	entries, _ := v.(map[string]any)
	for key, value := range entries {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

func (c *corpus) makeCases() error {
	unreadable, incomplete, converted := 0, 0, 0
	count := map[string]int{}
	slices.SortStableFunc(c.pods, func(a, b placedPod) int { return strings.Compare(a.file, b.file) })
	for i, pod := range c.pods {
		// If a manifest has no namespace, the case has its own.
		free := fmt.Sprintf("corpus-%d", i)
		networks, found, err := c.networksOf(pod, free)
		switch {
		case err != nil:
			unreadable++
			continue
		case !found:
			incomplete++
			continue
		}
		count[pod.file]++
		one := Case{
			Name:      fmt.Sprintf("corpus/%s#%d", strings.TrimSuffix(pod.file, ".yaml"), count[pod.file]),
			Namespace: orElse(pod.namespace, free), Networks: networks, Annotations: map[string]string{}, Foreign: true,
		}
		for _, key := range []string{attachment.NetworksAnnotation, "v1.multus-cni.io/default-network"} {
			if value, ok := pod.annotations[key]; ok {
				one.Annotations[key] = value
			}
		}
		if one.Claims, err = pod.manifest.convert(one.Namespace, networks); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		if len(one.Claims) > 0 {
			converted++
		}
		c.cases = append(c.cases, one)
	}
	c.about = fmt.Sprintf("%d of them converted by pkg/translate, the others stay as they are; left out: %d name networks that are not in it, %d have an annotation that cannot be read",
		converted, incomplete, unreadable)
	return nil
}

// networksOf finds the NADs that a pod names: in its file, in its folder, or anywhere.
func (c *corpus) networksOf(pod placedPod, free string) (networks []Network, found bool, err error) {
	selections, err := attachment.ParseSelections(pod.annotations[attachment.NetworksAnnotation], orElse(pod.namespace, free))
	if err != nil {
		return nil, false, err
	}
	for _, s := range selections {
		network, ok := c.find(pod, s.Network, free)
		if !ok {
			return nil, false, nil
		}
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks, len(networks) > 0, nil
}

func (c *corpus) find(pod placedPod, ref attachment.NetworkRef, free string) (Network, bool) {
	near := []func(file string) bool{
		func(file string) bool { return file == pod.file },
		func(file string) bool { return filepath.Dir(file) == filepath.Dir(pod.file) },
		func(string) bool { return true },
	}
	for _, is := range near {
		for _, n := range c.networks {
			// A manifest without a namespace is applied to the pod's namespace.
			there := n.Namespace == ref.Namespace || n.Namespace == "" || ref.Namespace == free
			if is(n.file) && n.Name == ref.Name && there {
				n.Namespace = ref.Namespace
				return n.Network, true
			}
		}
	}
	return Network{}, false
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// waves groups cases that have no two different networks with one name.
func waves(cases []Case) [][]Case {
	var out [][]Case
	var taken []map[attachment.NetworkRef]Network
next:
	for _, c := range cases {
		for i := range out {
			if fits(c, taken[i]) {
				out[i] = append(out[i], c)
				continue next
			}
		}
		names := map[attachment.NetworkRef]Network{}
		fits(c, names)
		out, taken = append(out, []Case{c}), append(taken, names)
	}
	return out
}

// fits adds the case's networks to those of a wave, unless one differs from a network with
// its name, and reports whether it did.
func fits(c Case, taken map[attachment.NetworkRef]Network) bool {
	for _, n := range c.Networks {
		if other, ok := taken[attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}]; ok && other != n {
			return false
		}
	}
	for _, n := range c.Networks {
		taken[attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}] = n
	}
	return true
}
