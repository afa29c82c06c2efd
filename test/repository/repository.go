// Package repository makes random repositories of manifests as people keep them in Git: pods of several
// kinds with networks annotations, their networks, and kustomizations. Tests convert them and compare what
// the converted pods would get with what Multus would attach.
package repository

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
)

// Repository is a folder of manifests.
type Repository struct {
	// Files has the files by their paths.
	Files map[string]string
	// Roots are the folders with a kustomization that no other one includes.
	Roots []string
	// Pods counts the pods and pod templates with an annotation.
	Pods int
}

// pools are those that a test's nodes serve.
var pools = []string{"intel.com/vf", "mellanox.com/rdma"}

// Pools returns the names of the resource pools from which networks draw.
func Pools() []string { return append([]string(nil), pools...) }

// Namespaces returns the namespaces in which there may be objects.
func Namespaces() []string { return []string{"core", "ran", "shop"} }

// maker makes one repository.
type maker struct {
	*rand.Rand
	repository Repository
	// networks has the networks of each namespace.
	networks map[string][]network
}

type network struct{ name, pool string }

// New returns the repository of a seed.
func New(seed uint64) Repository {
	m := &maker{rand.New(rand.NewPCG(seed, 1)), Repository{Files: map[string]string{}}, map[string][]network{}}
	for _, ns := range Namespaces() {
		m.folder(ns, ns)
	}
	m.folder("more", Namespaces()[0])
	return m.repository
}

// folder makes a folder with objects of a namespace: its networks, unless another folder has them,
// workloads and perhaps a kustomization, which may set the namespace instead of the manifests.
func (m *maker) folder(folder, ns string) {
	style := m.IntN(3)
	stated := ns
	if style == 2 {
		stated = "" // the kustomization sets it
	}
	var nads, files []string
	for i := range 1 + m.IntN(4) {
		if folder != ns {
			break
		}
		n := network{name: fmt.Sprintf("net%d", i)}
		if m.IntN(4) == 0 {
			n.pool = pools[m.IntN(len(pools))]
		}
		m.networks[ns] = append(m.networks[ns], n)
		nads = append(nads, m.definition(n, stated))
	}
	if len(nads) > 0 {
		m.repository.Files[path.Join(folder, "networks.yaml")] = strings.Join(nads, "---\n")
		files = append(files, "networks.yaml")
	}
	for i := range 1 + m.IntN(3) {
		name := fmt.Sprintf("app%d.yaml", i)
		var objects []string
		for j := range 1 + m.IntN(2) {
			objects = append(objects, m.workload(fmt.Sprintf("%s-%d-%d", folder, i, j), ns, stated))
		}
		m.repository.Files[path.Join(folder, name)] = strings.Join(objects, "---\n")
		files = append(files, name)
	}
	if style == 0 {
		return
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
	for _, f := range files {
		text += "- " + f + "\n"
	}
	if stated == "" {
		text = "namespace: " + ns + "\n" + text
	}
	m.repository.Files[path.Join(folder, "kustomization.yaml")] = text
	m.repository.Roots = append(m.repository.Roots, folder)
}

// metadata returns the lines of an object's metadata.
func metadata(name, ns string) string {
	out := "metadata:\n  name: " + name + "\n"
	if ns != "" {
		out += "  namespace: " + ns + "\n"
	}
	return out
}

// definition makes a NetworkAttachmentDefinition.
func (m *maker) definition(n network, ns string) string {
	configs := []string{
		`{"cniVersion": "1.0.0", "type": "macvlan", "master": "eth1", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}`,
		`{"cniVersion": "0.3.1", "type": "bridge", "bridge": "br0", "capabilities": {"ips": true, "mac": true}}`,
		`{"cniVersion": "1.1.0", "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "bandwidth", "capabilities": {"bandwidth": true}}]}`,
	}
	config := configs[m.IntN(len(configs))]
	out := "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n" + metadata(n.name, ns)
	if n.pool != "" {
		out += "  annotations:\n    k8s.v1.cni.cncf.io/resourceName: " + n.pool + "\n"
		config = `{"cniVersion": "1.0.0", "type": "sriov"}`
	}
	return out + "spec:\n  config: '" + config + "'\n"
}

// workload makes an object with a pod template.
func (m *maker) workload(name, ns, stated string) string {
	annotation, drawn := m.annotation(ns)
	m.repository.Pods++
	pod := m.pod(annotation, drawn)
	switch m.IntN(5) {
	case 0:
		lines := strings.SplitN(pod, "\n", 2)[1] // its own metadata line is the object's
		return "apiVersion: v1\nkind: Pod\n" + metadata(name, stated) + lines
	case 1:
		return "apiVersion: batch/v1\nkind: CronJob\n" + metadata(name, stated) +
			"spec:\n  schedule: '0 * * * *'\n  jobTemplate:\n    spec:\n      template:\n" + indented(withRestart(pod, "Never"), 8)
	case 2:
		return "apiVersion: apps/v1\nkind: DaemonSet\n" + metadata(name, stated) + controller(name, pod, "")
	case 3:
		return "apiVersion: apps/v1\nkind: StatefulSet\n" + metadata(name, stated) + controller(name, pod, "  serviceName: "+name+"\n")
	}
	return "apiVersion: apps/v1\nkind: Deployment\n" + metadata(name, stated) + controller(name, pod, "")
}

// controller returns the spec of a controller of apps/v1.
func controller(name, pod, more string) string {
	labelled := strings.Replace(pod, "metadata:\n", "metadata:\n  labels: {app: "+name+"}\n", 1)
	return "spec:\n" + more + "  selector: {matchLabels: {app: " + name + "}}\n  template:\n" + indented(labelled, 4)
}

func withRestart(pod, policy string) string {
	return strings.Replace(pod, "\nspec:\n", "\nspec:\n  restartPolicy: "+policy+"\n", 1)
}

// pod makes the metadata and the spec of a pod template.
func (m *maker) pod(annotation string, drawn []string) string {
	quoted := "'" + annotation + "'"
	if !strings.ContainsAny(annotation, `{["`) && m.IntN(2) == 0 {
		quoted = annotation
	}
	out := "metadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: " + quoted + "\nspec:\n"
	if m.IntN(3) == 0 {
		out += "  initContainers:\n  - name: init # first\n    image: init:1\n"
	}
	out += "  containers:\n  - name: main\n    image: main:1\n"
	if len(drawn) > 0 {
		out += "    resources:\n      limits:\n        cpu: 1\n"
		counts := map[string]int{}
		for _, pool := range drawn {
			counts[pool]++
		}
		for _, pool := range pools {
			if counts[pool] > 0 {
				out += fmt.Sprintf("        %s: %d\n", pool, counts[pool])
			}
		}
	}
	if m.IntN(2) == 0 {
		out += "  - {name: side, image: side:1}\n"
	}
	return out
}

// annotation makes a networks annotation of a pod in a namespace, and names the pools from which its
// networks draw.
func (m *maker) annotation(ns string) (value string, drawn []string) {
	if n := m.networks[ns][0]; m.IntN(3) == 0 && n.pool == "" {
		return n.name, nil // often, so that workloads share templates
	}
	inNames := m.IntN(2) == 0
	var names []string
	var elements []map[string]any
	for i := range 1 + m.IntN(4) {
		from := ns
		if m.IntN(4) == 0 && len(m.networks) > 1 {
			from = Namespaces()[m.IntN(len(m.networks))]
		}
		n := m.networks[from][m.IntN(len(m.networks[from]))]
		if n.pool != "" {
			drawn = append(drawn, n.pool)
		}
		name, element := n.name, map[string]any{"name": n.name}
		if from != ns {
			name, element["namespace"] = from+"/"+n.name, from
		}
		if m.IntN(3) == 0 {
			inside := fmt.Sprintf("data%d", i)
			name, element["interface"] = name+"@"+inside, inside
		}
		if m.IntN(4) == 0 {
			element["ips"] = []string{fmt.Sprintf("10.1.0.%d/24", 10+i)}
		}
		if m.IntN(4) == 0 {
			element["mac"] = fmt.Sprintf("02:00:00:00:00:%02x", 10+i)
		}
		if m.IntN(5) == 0 {
			element["cni-args"] = map[string]any{"key": m.IntN(9), "list": []string{"a", "b"}}
		}
		if m.IntN(8) == 0 {
			element["bandwidth"] = map[string]any{"ingressRate": 2048, "ingressBurst": 1600}
		}
		if i == 0 && m.IntN(6) == 0 {
			element["default-route"] = []string{"10.1.0.1"}
		}
		names, elements = append(names, name), append(elements, element)
	}
	if inNames {
		return strings.Join(names, []string{",", ", "}[m.IntN(2)]), drawn
	}
	text, err := json.Marshal(elements)
	if err != nil {
		panic(fmt.Sprintf("encoding an annotation: %v", err))
	}
	return string(text), drawn
}

// indented indents each line.
func indented(text string, by int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", by) + line)
	}
	return b.String()
}
