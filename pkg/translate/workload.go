package translate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// object is one Kubernetes object of a document.
type object struct {
	doc  *document
	spot // its path is empty, or items and an index
	ref  ObjectRef
	// group is the API group, such as apps.
	group string
	// stated is the namespace that the manifest states. ref has the effective one.
	stated string
}

// objects returns the objects of a document. A kustomization or a deployment may give them a namespace.
func (e *environment) objects(d *document) []object {
	namespace, fills := e.units.namespace(d.file)
	all := objects(d, cmp.Or(namespace, fills, e.options.namespace()))
	for i := range all {
		o := &all[i]
		if o.stated == "" {
			o.stated = fills
		}
		o.stated = cmp.Or(namespace, o.stated)
		if o.ref.Namespace != "" && o.stated != "" {
			o.ref.Namespace = o.stated
		}
	}
	return all
}

// objects returns the objects of a document: the items of a List, or the document's object.
func objects(d *document, namespace string) []object {
	if !isMapping(d.Root) {
		return nil
	}
	kind, isList := strings.CutSuffix(str(get(d.Root, "kind")), "List")
	list := get(d.Root, "items")
	if !isList || list == nil {
		return []object{objectAt(d, d.Root, nil, ObjectRef{}, namespace)}
	}
	// The items of a PodList of the API server have neither.
	implied := ObjectRef{APIVersion: str(get(d.Root, "apiVersion")), Kind: kind}
	var out []object
	for i, item := range items(list) {
		if item = yamledit.Resolved(item); isMapping(item) {
			out = append(out, objectAt(d, item, Path{"items"}.Index(i), implied, namespace))
		}
	}
	return out
}

// objectAt returns the object at a node. ref has the kind if the node states none.
func objectAt(d *document, node *yaml.Node, path Path, ref ObjectRef, namespace string) object {
	o := object{doc: d, spot: spot{node, path}, stated: str(get(node, "metadata", "namespace"))}
	if kind := str(get(node, "kind")); kind != "" || ref.Kind == "" {
		ref = ObjectRef{APIVersion: str(get(node, "apiVersion")), Kind: kind}
	}
	ref.Namespace, ref.Name = o.stated, str(get(node, "metadata", "name"))
	if ref.Name == "" {
		ref.Name = str(get(node, "metadata", "generateName"))
	}
	if o.stated == "" && !slices.Contains(clusterKinds, ref.Kind) {
		ref.Namespace = namespace
	}
	o.group = groupOf(ref.APIVersion)
	o.ref = ref
	return o
}

// groupOf returns the API group of an apiVersion, "" for the core group.
func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// clusterKinds are the kinds without a namespace among those that the rules know.
var clusterKinds = []string{"ClusterQueue", "DeviceClass", "HostDeviceNetwork", "IPoIBNetwork", "MacvlanNetwork", "RuntimeClass"}

// TemplatePath is the path of the pod templates in objects of a kind. A step of "*" stands for all
// values of a mapping or list.
type TemplatePath struct {
	// Group is the API group, such as batch, or empty for the core group.
	Group, Kind string
	Path        Path
}

// templatePaths has the paths of the known kinds. A Pod is its own template.
var templatePaths = []TemplatePath{
	{"", "Pod", nil},
	{"", "PodTemplate", Path{"template"}},
	{"", "ReplicationController", Path{"spec", "template"}},
	{"apps", "Deployment", Path{"spec", "template"}},
	{"apps", "StatefulSet", Path{"spec", "template"}},
	{"apps", "DaemonSet", Path{"spec", "template"}},
	{"apps", "ReplicaSet", Path{"spec", "template"}},
	{"extensions", "Deployment", Path{"spec", "template"}},
	{"extensions", "DaemonSet", Path{"spec", "template"}},
	{"extensions", "ReplicaSet", Path{"spec", "template"}},
	{"batch", "Job", Path{"spec", "template"}},
	{"batch", "CronJob", Path{"spec", "jobTemplate", "spec", "template"}},
	{"apps.openshift.io", "DeploymentConfig", Path{"spec", "template"}},
	{"argoproj.io", "Rollout", Path{"spec", "template"}},
	{"kubeflow.org", "MPIJob", Path{"spec", "mpiReplicaSpecs", "*", "template"}},
	{"kubeflow.org", "PyTorchJob", Path{"spec", "pytorchReplicaSpecs", "*", "template"}},
	{"kubeflow.org", "TFJob", Path{"spec", "tfReplicaSpecs", "*", "template"}},
	{"jobset.x-k8s.io", "JobSet", Path{"spec", "replicatedJobs", "*", "template", "spec", "template"}},
	{"leaderworkerset.x-k8s.io", "LeaderWorkerSet", Path{"spec", "leaderWorkerTemplate", "leaderTemplate"}},
	{"leaderworkerset.x-k8s.io", "LeaderWorkerSet", Path{"spec", "leaderWorkerTemplate", "workerTemplate"}},
	{"ray.io", "RayCluster", Path{"spec", "headGroupSpec", "template"}},
	{"ray.io", "RayCluster", Path{"spec", "workerGroupSpecs", "*", "template"}},
}

// pod is a pod or a pod template.
type pod struct {
	object
	// template and at are the node and path of the template.
	template spot
}

// queueLabel is Kueue's label of a workload for the queue in which it waits.
const queueLabel = "kueue.x-k8s.io/queue-name"

// queue returns the queue of Kueue in which the pod waits, or "": that of the object, of the pod template, or of what
// is between them, as in a CronJob.
func (p pod) queue() string {
	for n, rest := p.node, p.template.path[len(p.path):]; len(rest) > 0 && n != nil; n, rest = get(n, rest[0]), rest[1:] {
		if queue := str(get(n, "metadata", "labels", queueLabel)); queue != "" {
			return queue
		}
	}
	return p.template.get("metadata", "labels", queueLabel).str()
}

// podsOf returns the pod templates of an object. known is false if the path of the kind's template is unknown. One of
// more counts only if it leads to a template.
func podsOf(o object, more []TemplatePath) (pods []pod, known bool) {
	for i, t := range slices.Concat(templatePaths, more) {
		if t.Kind != o.ref.Kind || t.Group != o.group {
			continue
		}
		known = known || i < len(templatePaths)
		expand(o.node, o.path, t.Path, func(n *yaml.Node, at Path) {
			known = true
			pods = append(pods, pod{o, spot{n, at}})
		})
	}
	return pods, known
}

// expand calls found for every mapping to which a path leads.
func expand(n *yaml.Node, at, path Path, found func(*yaml.Node, Path)) {
	n = yamledit.Resolved(n)
	switch {
	case n == nil:
	case len(path) == 0:
		if isMapping(n) {
			found(n, at)
		}
	case path[0] != "*":
		expand(get(n, path[0]), at.Child(path[0]), path[1:], found)
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			expand(item, at.Child(strconv.Itoa(i)), path[1:], found)
		}
	default:
		yamledit.Entries(n, func(key, value *yaml.Node) { expand(value, at.Child(key.Value), path[1:], found) })
	}
}

// annotation returns the value of an annotation of an object or a pod template.
func (s spot) annotation(name string) spot { return s.get("metadata", "annotations", name) }
