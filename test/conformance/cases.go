package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Network is a NetworkAttachmentDefinition of a case.
type Network struct {
	Namespace, Name, Config string
	// Resource is the value of the annotation that names a resource pool.
	Resource string
}

// Case is one pod with what it needs.
type Case struct {
	Name      string
	Namespace string
	// About has the numbers of the behaviours that the case shows.
	About       []string
	Networks    []Network
	Annotations map[string]string // of the pod
	// Claims has the claims of the pod's converted manifest. Without them, the suite makes
	// a claim from the annotation.
	Claims []resourceapi.ResourceClaimSpec
	// Files has the files in the node's directory for NADs without a configuration, by
	// name.
	Files map[string]string
	// Runtime is the runtimeConfig that the runtime passes to the default network, such as
	// a pod's host ports.
	Runtime map[string]any
	// DefaultNetwork is the configuration of the cluster's network, if it is not the suite's.
	DefaultNetwork string
	// Fails is set if neither side may start the pod. It is unknown for pods of the corpus.
	Fails   bool
	Foreign bool
	// MayFail is set if that depends on the kernel.
	MayFail bool
	// Differs is the number of a difference that follows from the case as a whole, and that
	// no rule can distinguish from others.
	Differs string
}

// text returns all texts of the case. A MAC address in it counts as requested.
func (c Case) text() string {
	var out strings.Builder
	for _, n := range c.Networks {
		out.WriteString(n.Config)
	}
	for _, s := range []map[string]string{c.Annotations, c.Files} {
		fmt.Fprint(&out, s)
	}
	return out.String()
}

// configs returns all CNI configurations of the case.
func (c Case) configs() []string {
	var out []string
	for _, n := range c.Networks {
		out = append(out, n.Config)
	}
	for _, content := range c.Files {
		out = append(out, content)
	}
	return append(out, c.DefaultNetwork)
}

// theme is one file of cases, which share its networks.
type theme struct {
	About     string            `json:"about"`
	NADs      map[string]string `json:"nads"`
	Resources map[string]string `json:"resources"`
	// Defaults are configurations of the cluster's network, by the names in cases.
	Defaults map[string]string `json:"defaults"`
	Cases    []themeCase       `json:"cases"`
}

type themeCase struct {
	Name  string   `json:"name"`
	Shows []string `json:"shows"`
	// Networks is the networks annotation; nil for a pod without it.
	Networks *string `json:"networks"`
	// Elements is the annotation's JSON form, for values that read badly as text.
	Elements    []map[string]any  `json:"elements"`
	Annotations map[string]string `json:"annotations"`
	Files       map[string]string `json:"files"`
	Runtime     map[string]any    `json:"runtime"`
	Default     string            `json:"default"`
	Fails       bool              `json:"fails"`
	MayFail     bool              `json:"mayFail"`
	Differs     string            `json:"differs"`
}

// ownCases reads the suite's own cases.
func ownCases(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []Case
	for _, file := range files {
		cases, err := readTheme(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out = append(out, cases...)
	}
	return out, checkFiles(out)
}

func readTheme(file string) ([]Case, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// Long texts that the file abbreviates.
	text = bytes.ReplaceAll(text, []byte("@200kB@"), bytes.Repeat([]byte("0123456789"), 20_000))
	var t theme
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return nil, err
	}
	namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
	var out []Case
	for _, c := range t.Cases {
		one, err := c.in(namespace, t)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func (c themeCase) in(namespace string, t theme) (Case, error) {
	out := Case{
		Name: namespace + "/" + c.Name, Namespace: namespace, About: c.Shows,
		Annotations: map[string]string{}, Files: c.Files, Runtime: c.Runtime, Fails: c.Fails, MayFail: c.MayFail, Differs: c.Differs,
	}
	for key, value := range c.Annotations {
		out.Annotations[key] = value
	}
	if c.Default != "" {
		if out.DefaultNetwork = t.Defaults[c.Default]; out.DefaultNetwork == "" {
			return out, fmt.Errorf("there is no default network %s", c.Default)
		}
	}
	if c.Networks != nil {
		out.Annotations[attachment.NetworksAnnotation] = *c.Networks
	}
	if c.Elements != nil {
		text, err := json.Marshal(c.Elements)
		if err != nil {
			return out, err
		}
		out.Annotations[attachment.NetworksAnnotation] = string(text)
	}
	for name, config := range t.NADs {
		n := Network{Namespace: namespace, Name: name, Config: config, Resource: t.Resources[name]}
		if before, after, found := strings.Cut(name, "/"); found {
			n.Namespace, n.Name = before, after
		}
		out.Networks = append(out.Networks, n)
	}
	return out, nil
}

// checkFiles checks that nadra's one directory can have the files of all cases. Multus gets
// a directory for each case.
func checkFiles(cases []Case) error {
	owner := map[string]string{}
	for _, c := range cases {
		for file := range c.Files {
			if other, taken := owner[file]; taken && other != c.Name {
				return fmt.Errorf("cases %s and %s both have a file %s", other, c.Name, file)
			}
			owner[file] = c.Name
		}
	}
	return nil
}

var (
	typeForm   = regexp.MustCompile(`"type"\s*:\s*"([A-Za-z0-9_.-]+)"`)
	linkForm   = regexp.MustCompile(`"(master|device)"\s*:\s*"([^"/]+)"`)
	bridgeForm = regexp.MustCompile(`"bridge"\s*:\s*"([^"/]+)"`)
)

// absentPlugin begins the names of plugins that must be missing.
const absentPlugin = "absent"

// pluginTypes returns the plugins that the cases call. It searches configurations without
// parsing them, because some are broken on purpose.
func pluginTypes(cases []Case) []string {
	var out []string
	for _, c := range cases {
		for _, config := range c.configs() {
			for _, found := range typeForm.FindAllStringSubmatch(config, -1) {
				if !strings.HasPrefix(found[1], absentPlugin) {
					out = append(out, found[1])
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nodeLinks returns the interfaces that the cases expect on the node, and whether each is a
// bridge.
func nodeLinks(cases []Case) map[string]bool {
	out := map[string]bool{}
	for _, c := range cases {
		for _, config := range c.configs() {
			for _, found := range linkForm.FindAllStringSubmatch(config, -1) {
				if !strings.HasPrefix(found[2], absentPlugin) {
					out[found[2]] = false
				}
			}
		}
	}
	for _, c := range cases {
		for _, config := range c.configs() {
			for _, found := range bridgeForm.FindAllStringSubmatch(config, -1) {
				if _, ok := out[found[1]]; ok {
					out[found[1]] = true
				}
			}
		}
	}
	return out
}
