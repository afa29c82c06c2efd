package translate

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object is one Kubernetes object of a document.
type object struct {
	doc  *document
	node *yaml.Node
	path Path // within the document: empty, or items and an index
	ref  ObjectRef
	// group is the API group, e.g. apps.
	group string
	// stated is the namespace that the manifest states; ref has the one that
	// is meant.
	stated string
}

// objects are those of a document; those of a List are its items.
func objects(d *document, namespace string) []object {
	if !isMapping(d.root) {
		return nil
	}
	kind, isList := strings.CutSuffix(str(get(d.root, "kind")), "List")
	list := get(d.root, "items")
	if !isList || list == nil {
		return []object{objectAt(d, d.root, nil, ObjectRef{}, namespace)}
	}
	// The items of a PodList, as the API server answers, say neither.
	implied := ObjectRef{APIVersion: str(get(d.root, "apiVersion")), Kind: kind}
	var out []object
	for i, item := range items(list) {
		if item = resolved(item); isMapping(item) {
			out = append(out, objectAt(d, item, Path{"items"}.Index(i), implied, namespace))
		}
	}
	return out
}

func objectAt(d *document, node *yaml.Node, path Path, ref ObjectRef, namespace string) object {
	o := object{doc: d, node: node, path: path, stated: str(get(node, "metadata", "namespace"))}
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

// groupOf is the API group of an apiVersion; empty for the core.
func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// clusterKinds are those of the kinds that the rules know which have no
// namespace.
var clusterKinds = []string{"ClusterQueue", "DeviceClass", "HostDeviceNetwork", "IPoIBNetwork", "MacvlanNetwork", "RuntimeClass"}

// TemplatePath says where objects of a kind have their pod templates. A step of
// "*" stands for all values of a mapping or list.
type TemplatePath struct {
	// Group is the API group, e.g. batch; empty for the core.
	Group, Kind string
	Path        Path
}

// templatePaths are those that are known. A Pod is its own template.
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
	// node and path are the template's, where object's are the whole object's.
	template *yaml.Node
	at       Path // within the document
}

// podsOf finds an object's pod templates; known is false for kinds that have
// none that is known.
func podsOf(o object, more []TemplatePath) (pods []pod, known bool) {
	for _, t := range slices.Concat(templatePaths, more) {
		if t.Kind != o.ref.Kind || t.Group != o.group {
			continue
		}
		known = true
		expand(o.node, o.path, t.Path, func(n *yaml.Node, at Path) {
			pods = append(pods, pod{object: o, template: n, at: at})
		})
	}
	return pods, known
}

// expand calls found for every mapping that the path leads to.
func expand(n *yaml.Node, at, path Path, found func(*yaml.Node, Path)) {
	n = resolved(n)
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
		entries(n, func(key, value *yaml.Node) { expand(value, at.Child(key.Value), path[1:], found) })
	}
}

// annotation returns an annotation's value; nil if there is none.
func annotation(n *yaml.Node, name string) *yaml.Node {
	return get(n, "metadata", "annotations", name)
}
