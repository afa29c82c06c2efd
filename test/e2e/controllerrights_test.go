//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/test/lab"
)

// elsewhere is the name of a node that does not exist.
const elsewhere = "elsewhere"

// TestControllerRights tests that no account of nadra reaches further than the manifests say, and that the
// policies refuse what RBAC cannot express. Its parts share one installation.
func TestControllerRights(t *testing.T) {
	f := setup(t, "rights-other")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx, "--pools"))
	f.part("RBAC allows each account what the manifests list, and nothing more", (*fixture).rightsAreListed)
	f.part("the policies refuse attacks", (*fixture).attacksAreRefused)
	f.part("the policies admit what the accounts do", (*fixture).workIsAdmitted)
}

// account is a ServiceAccount with the rules of the manifests.
type account struct {
	namespace, name string
	cluster         []rbacv1.PolicyRule
	// in has the rules of a namespace.
	in map[string][]rbacv1.PolicyRule
}

// question asks whether an account may do something.
type question struct{ verb, group, resource, subresource, namespace, name string }

func (q question) String() string {
	return fmt.Sprintf("%s %s/%s in %q of %q %s", q.verb, q.resource, q.subresource, q.namespace, q.group, q.name)
}

// allows reports whether a rule allows what is asked.
func allows(r rbacv1.PolicyRule, q question) bool {
	resource := q.resource
	if q.subresource != "" {
		resource += "/" + q.subresource
	}
	return slices.Contains(r.Verbs, q.verb) && slices.Contains(r.APIGroups, q.group) && slices.Contains(r.Resources, resource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.name))
}

func (a *account) allows(q question) bool {
	rule := func(r rbacv1.PolicyRule) bool { return allows(r, q) }
	return slices.ContainsFunc(a.cluster, rule) || q.namespace != "" && slices.ContainsFunc(a.in[q.namespace], rule)
}

// accounts returns the accounts of rendered manifests.
func (f *fixture) accounts(overlays ...string) map[string]*account {
	f.Helper()
	out := map[string]*account{}
	rules := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding
	for _, overlay := range overlays {
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(lab.Root(), "manifests", overlay))
		f.Must(err)
		for _, r := range objects.Resources() {
			var role rbacv1.Role // a ClusterRole has the same fields
			var binding rbacv1.RoleBinding
			switch text := []byte(r.MustYaml()); r.GetKind() {
			case "ServiceAccount":
				out[r.GetName()] = &account{namespace: r.GetNamespace(), name: r.GetName(), in: map[string][]rbacv1.PolicyRule{}}
			case "Role", "ClusterRole":
				f.Must(yaml.Unmarshal(text, &role))
				rules[r.GetKind()+role.Namespace+role.Name] = role.Rules
			case "RoleBinding", "ClusterRoleBinding":
				f.Must(yaml.Unmarshal(text, &binding))
				bindings = append(bindings, binding)
			}
		}
	}
	for _, b := range bindings {
		a := out[b.Subjects[0].Name]
		if b.Namespace == "" {
			a.cluster = append(a.cluster, rules[b.RoleRef.Kind+b.RoleRef.Name]...)
		} else {
			a.in[b.Namespace] = append(a.in[b.Namespace], rules[b.RoleRef.Kind+b.Namespace+b.RoleRef.Name]...)
		}
	}
	return out
}

// verbs has all verbs that Kubernetes checks, also those that no request has.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "approve", "sign", "attest", "use",
	"associated-node:patch", "associated-node:update", "arbitrary-node:patch", "arbitrary-node:update",
}

// questions returns a question for each verb, each resource of discovery and some that it does not list, each
// namespace, and each name in the accounts' rules besides no name.
func (f *fixture) questions(accounts map[string]*account) []question {
	f.Helper()
	names := map[string][]string{} // by resource
	for _, a := range accounts {
		for _, r := range slices.Concat(append(slices.Collect(maps.Values(a.in)), a.cluster)...) {
			for _, resource := range r.Resources {
				names[resource] = append(names[resource], r.ResourceNames...)
			}
		}
	}
	lists, err := f.Kube.Discovery().ServerPreferredResources()
	f.Must(err)
	_, groups, err := f.Kube.Discovery().ServerGroupsAndResources()
	f.Must(err)
	all := map[question]bool{}
	add := func(group, resource string, namespaced bool) {
		main, sub, _ := strings.Cut(resource, "/")
		namespaces := []string{""}
		if namespaced {
			namespaces = []string{"", "nadra", lab.ControllerNamespace, "kube-system", f.NS}
		}
		for _, namespace := range namespaces {
			for _, verb := range verbs {
				for _, name := range append(slices.Compact(slices.Sorted(slices.Values(names[resource]))), "") {
					all[question{verb, group, main, sub, namespace, name}] = true
				}
			}
		}
	}
	for _, list := range slices.Concat(lists, groups) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		f.Must(err)
		for _, r := range list.APIResources {
			add(gv.Group, r.Name, r.Namespaced)
		}
	}
	for _, resource := range []string{"users", "groups", "userextras/scopes", "uids"} {
		add("authentication.k8s.io", resource, false)
	}
	add("resource.k8s.io", "resourceclaims/driver", true)
	add("resource.k8s.io", "resourceclaims/binding", true)
	add("", "nodes/proxy", false)
	return slices.SortedFunc(maps.Keys(all), func(a, b question) int { return strings.Compare(a.String(), b.String()) })
}

// rightsAreListed asks the API server for every verb on every resource, and compares with the manifests and with
// what every account may do. Of the uninstallation it installs the account, not the Job, which would delete the
// webhooks while no replica leads.
func (f *fixture) rightsAreListed() {
	uninstaller := filepath.Join(lab.Root(), "manifests", "drop-in", "uninstall", "rbac.yaml")
	f.Kubectl("-n", lab.ControllerNamespace, "apply", "-f", uninstaller)
	accounts := f.accounts("drop-in", "drop-in/uninstall")
	if len(accounts) != 4 {
		f.Fatalf("the manifests have the accounts %v", slices.Sorted(maps.Keys(accounts)))
	}
	questions := f.questions(accounts)
	nobody := f.answers(&account{namespace: f.NS, name: "nobody"}, questions)
	for name, a := range accounts {
		began, allowed := time.Now(), 0
		got := f.answers(a, questions)
		for i, q := range questions {
			if got[i] {
				allowed++
			}
			if want := nobody[i] || a.allows(q); got[i] != want {
				f.Errorf("%s: %s is allowed: %v, want %v", name, q, got[i], want)
			}
		}
		f.Logf("%s: %d of %d questions are allowed, asked in %s", name, allowed, len(questions), since(began))
	}
	f.Kubectl("-n", lab.ControllerNamespace, "delete", "-f", uninstaller, "--timeout=60s")
}

// answers asks the API server's authorizer.
func (f *fixture) answers(a *account, questions []question) []bool {
	f.Helper()
	config, err := f.Cluster.RESTConfig()
	f.Must(err)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	f.Must(err)
	out, errs := make([]bool, len(questions)), make([]error, 8)
	var group sync.WaitGroup
	for worker := range errs {
		group.Go(func() {
			for i := worker; i < len(questions) && errs[worker] == nil; i += len(errs) {
				q := questions[i]
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User:   "system:serviceaccount:" + a.namespace + ":" + a.name,
					Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: q.verb, Group: q.group, Resource: q.resource, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
					},
				}}
				review, errs[worker] = kube.AuthorizationV1().SubjectAccessReviews().Create(f.Ctx, review, metav1.CreateOptions{})
				out[i] = errs[worker] == nil && review.Status.Allowed
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		f.Must(err)
	}
	return out
}

// caller writes with the token of an account.
type caller struct {
	f *fixture
	dynamic.Interface
}

// as returns a caller with a token of an account, which is bound to a pod, or to nothing.
func (f *fixture) as(namespace, name, pod string) caller {
	f.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod}
	}
	token, err := f.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(f.Ctx, name, request, metav1.CreateOptions{})
	f.Must(err)
	config, err := f.Cluster.RESTConfig()
	f.Must(err)
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token.Status.Token
	client, err := dynamic.NewForConfig(config)
	f.Must(err)
	return caller{f, client}
}

// driver returns a caller with the token of the driver's pod on the node.
func (f *fixture) driver() caller {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods("nadra").List(f.Ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=nadra-node", FieldSelector: "spec.nodeName=" + f.node.Name(),
	})
	f.Must(err)
	return f.as("nadra", "nadra-node", pods.Items[0].Name)
}

var (
	slicesOf  = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}
	classesOf = slicesOf.GroupVersion().WithResource("deviceclasses")
	templates = slicesOf.GroupVersion().WithResource("resourceclaimtemplates")
	claims    = slicesOf.GroupVersion().WithResource("resourceclaims")
	pods      = corev1.SchemeGroupVersion.WithResource("pods")
	nodesOf   = corev1.SchemeGroupVersion.WithResource("nodes")
	secrets   = corev1.SchemeGroupVersion.WithResource("secrets")
	mutating  = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// object parses an object.
func (f *fixture) object(text string) *unstructured.Unstructured {
	f.Helper()
	var o unstructured.Unstructured
	f.Must(yaml.Unmarshal([]byte(text), &o.Object))
	return &o
}

// create, patch and remove are requests that store nothing.
func (c caller) create(resource schema.GroupVersionResource, namespace, text string) error {
	c.f.Helper()
	_, err := c.Resource(resource).Namespace(namespace).Create(c.f.Ctx, c.f.object(text), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// patch merges a patch. Accounts without the verb patch read as the administrator and update.
func (c caller) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) error {
	_, err := c.Resource(resource).Namespace(namespace).Patch(c.f.Ctx, name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

func (c caller) update(resource schema.GroupVersionResource, namespace, name string, change func(map[string]any)) error {
	c.f.Helper()
	config, err := c.f.Cluster.RESTConfig()
	c.f.Must(err)
	admin, err := dynamic.NewForConfig(config)
	c.f.Must(err)
	o, err := admin.Resource(resource).Namespace(namespace).Get(c.f.Ctx, name, metav1.GetOptions{})
	c.f.Must(err)
	change(o.Object)
	_, err = c.Resource(resource).Namespace(namespace).Update(c.f.Ctx, o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// apply applies an object on the server's side, and takes over fields of others.
func (c caller) apply(resource schema.GroupVersionResource, namespace, text string, subresources ...string) error {
	c.f.Helper()
	o := c.f.object(text)
	_, err := c.Resource(resource).Namespace(namespace).Apply(c.f.Ctx, o.GetName(), o,
		metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "attack", Force: true}, subresources...)
	return err
}

func (c caller) remove(resource schema.GroupVersionResource, namespace, name string) error {
	return c.Resource(resource).Namespace(namespace).Delete(c.f.Ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}

// slice returns a slice of a driver with the node that where selects.
func slice(driver, pool, where string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: attack},
spec: {driver: %s, pool: {name: %s, generation: 1, resourceSliceCount: 1}, %s, devices: [{name: a}]}}`, driver, pool, where)
}

// class returns a DeviceClass with a label, and a selector.
func class(name, label, spec string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s, labels: {app.kubernetes.io/managed-by: %s}}, spec: %s}`, name, label, spec)
}

// claimTemplate returns a ResourceClaimTemplate with one request.
func claimTemplate(name, label, request string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: %s, labels: {app.kubernetes.io/managed-by: %s}},
spec: {spec: {devices: {requests: [{name: net1, exactly: %s}]}}}}`, name, label, request)
}

const ofNadra = "nadra-controller"

// attacksAreRefused tries what a stolen token would be used for. All of it is a dry run except the objects that are
// attacked.
func (f *fixture) attacksAreRefused() {
	node := f.node.Name()
	driver, unbound := f.driver(), f.as("nadra", "nadra-node", "")
	controller, maintenance := f.as(lab.ControllerNamespace, "nadra-controller", ""), f.as(lab.ControllerNamespace, "nadra-certificates", "")
	victims := []string{
		strings.Replace(slice("gpu.example.com", "a", "nodeName: "+elsewhere), "attack", "gpu-elsewhere", 1),
		strings.Replace(slice("gpu.example.com", "b", "allNodes: true"), "attack", "gpu-everywhere", 1),
		strings.Replace(slice("gpu.example.com", "c", "nodeName: "+node), "attack", "gpu-here", 1),
		class("gpu.example.com", "somebody", `{selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}`),
		strings.Replace(claimTemplate("theirs", "somebody", "{deviceClassName: gpu.example.com}"), "{name: theirs", "{namespace: "+f.NS+", name: theirs", 1),
	}
	f.Kubectl("label", "namespace", f.NS, "resource.kubernetes.io/admin-access=true") // otherwise Kubernetes refuses adminAccess
	victims = append(victims, `{apiVersion: v1, kind: Node, metadata: {name: `+elsewhere+`}}`)
	for _, text := range victims {
		f.Must(f.Apply(f.Ctx, text))
	}
	defer f.Kubectl("delete", "node/"+elsewhere)
	defer f.Kubectl("delete", "resourceslice/gpu-elsewhere", "resourceslice/gpu-everywhere", "resourceslice/gpu-here", "deviceclass/gpu.example.com")
	here, err := f.Kube.CoreV1().Pods(lab.ControllerNamespace).List(f.Ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	f.Must(err)
	pod := here.Items[0].Name
	status := func(c caller, patch string) error {
		return c.patch(pods, lab.ControllerNamespace, pod, patch, "status")
	}
	const annotation = `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`
	const nadras = `[{cel: {expression: 'device.driver == "net.nadra.dev" && "n_a" in device.attributes["net.nadra.dev"] && device.attributes["net.nadra.dev"].n_a.contains("Aaaaa")'}}]`
	webhooks := func(c map[string]any) []any { return c["webhooks"].([]any) }

	for _, attack := range []struct {
		name, policy string
		try          func() error
	}{
		{"a slice of another driver on another node", "nadra-slices", func() error {
			return driver.create(slicesOf, "", slice("gpu.example.com", "x", "nodeName: "+elsewhere))
		}},
		{"a slice of another driver on its node", "nadra-slices", func() error {
			return driver.create(slicesOf, "", slice("gpu.example.com", node+"/x", "nodeName: "+node))
		}},
		{"a slice of another driver for all nodes", "nadra-slices", func() error { return driver.create(slicesOf, "", slice("gpu.example.com", "x", "allNodes: true")) }},
		{"nadra's slice for all nodes", "nadra-slices", func() error { return driver.create(slicesOf, "", slice(lab.DriverName, node+"/x", "allNodes: true")) }},
		{"nadra's slice for a selector of nodes", "nadra-slices", func() error {
			return driver.create(slicesOf, "", slice(lab.DriverName, node+"/x", "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}"))
		}},
		{"nadra's slice of another node", "nadra-slices", func() error {
			return driver.create(slicesOf, "", slice(lab.DriverName, elsewhere+"/x", "nodeName: "+elsewhere))
		}},
		{"a pool of another node", "nadra-slices", func() error {
			return driver.create(slicesOf, "", slice(lab.DriverName, elsewhere+"/networks", "nodeName: "+node))
		}},
		{"a slice of another driver by apply", "nadra-slices", func() error {
			return driver.apply(slicesOf, "", slice("gpu.example.com", node+"/x", "nodeName: "+node))
		}},
		{"another driver's slice changed by apply", "nadra-slices", func() error {
			return driver.apply(slicesOf, "", strings.Replace(slice("gpu.example.com", "c", "nodeName: "+node), "name: attack", "name: gpu-here, labels: {a: b}", 1))
		}},
		{"a pod's condition by apply", "nadra-pod-status", func() error {
			return driver.apply(pods, lab.ControllerNamespace, `{apiVersion: v1, kind: Pod, metadata: {name: `+pod+`}, status: {conditions: [{type: a, status: "True"}]}}`, "status")
		}},
		{"another driver's slice emptied", "nadra-slices", func() error { return driver.patch(slicesOf, "", "gpu-elsewhere", `{"spec":{"devices":[]}}`) }},
		{"another driver's slice for all nodes emptied", "nadra-slices", func() error { return driver.patch(slicesOf, "", "gpu-everywhere", `{"spec":{"devices":[]}}`) }},
		{"another driver's slice deleted", "nadra-slices", func() error { return driver.remove(slicesOf, "", "gpu-elsewhere") }},
		{"another driver's slice for all nodes deleted", "nadra-slices", func() error { return driver.remove(slicesOf, "", "gpu-everywhere") }},
		{"another driver's slice of its node deleted", "nadra-slices", func() error { return driver.remove(slicesOf, "", "gpu-here") }},
		{"another driver's slice labelled", "nadra-slices", func() error { return driver.patch(slicesOf, "", "gpu-here", `{"metadata":{"labels":{"a":"b"}}}`) }},
		{"a slice that nodes share, by a driver", "nadra-slices", func() error {
			return driver.create(slicesOf, "", shared("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"))
		}},
		{"nadra's slice of a node, by the controller", "nadra-slices", func() error {
			return controller.create(slicesOf, "", slice(lab.DriverName, node+"/x", "nodeName: "+node))
		}},
		{"a slice for all nodes, by the controller", "nadra-slices", func() error { return controller.create(slicesOf, "", slice(lab.DriverName, "x", "allNodes: true")) }},
		{"a slice for nodes of another profile than its label's", "nadra-slices", func() error {
			return controller.create(slicesOf, "", shared("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"))
		}},
		{"a slice for nodes of another label", "nadra-slices", func() error {
			return controller.create(slicesOf, "", strings.Replace(shared("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"), "key: nadra.dev/profile", "key: a", 1))
		}},
		{"a slice of a profile that may be a node's name", "nadra-slices", func() error { return controller.create(slicesOf, "", shared("worker", "worker")) }},
		{"another driver's slice by the controller", "nadra-slices", func() error {
			return controller.create(slicesOf, "", strings.Replace(shared("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"), "driver: "+lab.DriverName, "driver: gpu.example.com", 1))
		}},
		{"another driver's slice deleted by the controller", "nadra-slices", func() error { return controller.remove(slicesOf, "", "gpu-elsewhere") }},
		{"another Node's profile", "nadra-profile", func() error {
			return driver.patch(nodesOf, "", elsewhere, `{"metadata":{"labels":{"nadra.dev/profile":"a"}}}`)
		}},
		{"another label of its Node", "nadra-profile", func() error {
			return driver.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/owner":"nadra","other":"1"}}}`)
		}},
		{"a label of its Node removed", "nadra-profile", func() error {
			return driver.patch(nodesOf, "", node, `{"metadata":{"labels":{"kubernetes.io/hostname":null}}}`)
		}},
		{"another annotation of its Node", "nadra-profile", func() error { return driver.patch(nodesOf, "", node, `{"metadata":{"annotations":{"other":"1"}}}`) }},
		{"a taint of its Node", "nadra-profile", func() error {
			return driver.patch(nodesOf, "", node, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)
		}},
		{"its Node's profile by a token of no node", "nadra-", func() error {
			return unbound.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":"a"}}}`)
		}},
		{"a profile of a Node by the controller", "nadra-profile", func() error {
			return controller.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":"a"}}}`)
		}},
		{"another label of a Node by the controller", "nadra-profile", func() error {
			return controller.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":null,"nadra.dev/owner":null}}}`)
		}},
		{"facts of a Node by the controller", "nadra-profile", func() error {
			return controller.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":null},"annotations":{"nadra.dev/facts":"{}"}}}`)
		}},
		{"a taint by the controller", "nadra-profile", func() error {
			return controller.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":null}},"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)
		}},
		{"nadra's slice by a token of no node", "nadra-", func() error { return unbound.create(slicesOf, "", slice(lab.DriverName, node+"/x", "nodeName: "+node)) }},
		{"another driver's slice by a token of no node", "nadra-", func() error { return unbound.remove(slicesOf, "", "gpu-elsewhere") }},
		{"nadra's slice by an administrator", "nadra-slices", func() error {
			return f.admin().create(slicesOf, "", slice(lab.DriverName, node+"/x", "nodeName: "+node))
		}},
		{"an event by a token of no node", "nadra-node", func() error {
			return unbound.create(corev1.SchemeGroupVersion.WithResource("events"), f.NS, `{apiVersion: v1, kind: Event, metadata: {name: a}, involvedObject: {namespace: `+f.NS+`}}`)
		}},
		{"a pod's annotation by a token of no node", "nadra-", func() error { return status(unbound, annotation) }},
		{"another annotation", "nadra-pod-status", func() error { return status(driver, `{"metadata":{"annotations":{"other":"1"}}}`) }},
		{"a label", "nadra-pod-status", func() error { return status(driver, `{"metadata":{"labels":{"other":"1"}}}`) }},
		{"a finalizer", "nadra-pod-status", func() error { return status(driver, `{"metadata":{"finalizers":["example.com/mine"]}}`) }},
		{"a pod's address", "nadra-pod-status", func() error { return status(driver, `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`) }},
		{"a pod's condition", "nadra-pod-status", func() error { return status(driver, `{"status":{"conditions":[{"type":"a","status":"True"}]}}`) }},

		{"a class of another name", "nadra-classes", func() error {
			return controller.create(classesOf, "", class("gpu", ofNadra, `{selectors: `+nadras+`}`))
		}},
		{"a class without the label", "nadra-classes", func() error {
			return controller.create(classesOf, "", class("a.b.nad.nadra.dev", "x", `{selectors: `+nadras+`}`))
		}},
		{"a class of all devices", "nadra-classes", func() error { return controller.create(classesOf, "", class("a.b.nad.nadra.dev", ofNadra, `{}`)) }},
		{"a class of another driver", "nadra-classes", func() error {
			return controller.create(classesOf, "", class("a.b.nad.nadra.dev", ofNadra, `{selectors: [{cel: {expression: 'device.driver == "net.nadra.dev" && "n_a" in device.attributes["net.nadra.dev"] && device.attributes["net.nadra.dev"].n_a.contains("A") || true || "".contains("A")'}}]}`))
		}},
		{"a class that configures another driver", "nadra-classes", func() error {
			return controller.create(classesOf, "", class("a.b.nad.nadra.dev", ofNadra, `{selectors: `+nadras+`, config: [{opaque: {driver: gpu.example.com, parameters: {}}}]}`))
		}},
		{"a foreign class deleted", "nadra-classes", func() error { return controller.remove(classesOf, "", "gpu.example.com") }},
		{"a foreign class taken over", "nadra-classes", func() error {
			return controller.update(classesOf, "", "gpu.example.com", func(c map[string]any) {
				c["metadata"].(map[string]any)["labels"] = map[string]any{"app.kubernetes.io/managed-by": ofNadra}
			})
		}},
		{"a foreign template in kube-system", "nadra-templates", func() error {
			return controller.create(templates, "kube-system", claimTemplate("mine", ofNadra, "{deviceClassName: a.b.nad.nadra.dev}"))
		}},
		{"a template of another class", "nadra-templates", func() error {
			return controller.create(templates, "kube-system", claimTemplate("nadra-net-0123456789", ofNadra, "{deviceClassName: gpu.example.com}"))
		}},
		{"a template with another class as an alternative", "nadra-templates", func() error {
			return controller.create(templates, f.NS, strings.Replace(claimTemplate("nadra-net-0123456789", ofNadra, "[{name: a, deviceClassName: gpu.example.com}]"), "exactly", "firstAvailable", 1))
		}},
		{"a template with access to all devices", "nadra-templates", func() error {
			return controller.create(templates, f.NS, claimTemplate("nadra-net-0123456789", ofNadra, "{deviceClassName: a.b.nad.nadra.dev, adminAccess: true}"))
		}},
		{"a foreign template deleted", "nadra-templates", func() error { return controller.remove(templates, f.NS, "theirs") }},
		{"a webhook by the controller", "cannot update", func() error {
			return controller.update(mutating, "", "nadra-controller", func(c map[string]any) { c["webhooks"] = webhooks(c)[:1] })
		}},
		{"the certificate by the controller", "cannot delete", func() error { return controller.remove(secrets, lab.ControllerNamespace, "nadra-webhook-tls") }},
		{"a token of another account by the controller", "cannot create", func() error { return controller.create(secrets, lab.ControllerNamespace, tokenOf("nadra-webhook-tls")) }},

		{"a webhook on Secrets", "nadra-certificates", func() error {
			return maintenance.update(mutating, "", "nadra-controller", func(c map[string]any) {
				w := f.object(`{name: spy.nadra.dev, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "https://example.com/"},
rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [secrets]}]}`)
				c["webhooks"] = append(webhooks(c), w.Object)
			})
		}},
		{"another address of a webhook", "nadra-certificates", func() error {
			return maintenance.update(mutating, "", "nadra-controller", func(c map[string]any) {
				webhooks(c)[0].(map[string]any)["clientConfig"] = map[string]any{"url": "https://example.com/"}
			})
		}},
		{"a webhook removed", "nadra-certificates", func() error {
			return maintenance.update(mutating, "", "nadra-controller", func(c map[string]any) { c["webhooks"] = webhooks(c)[1:] })
		}},
		{"other rules of a webhook", "nadra-certificates", func() error {
			return maintenance.update(mutating, "", "nadra-controller", func(c map[string]any) { webhooks(c)[0].(map[string]any)["failurePolicy"] = "Ignore" })
		}},
		{"an owner of the configuration", "nadra-certificates", func() error {
			return maintenance.update(mutating, "", "nadra-controller", func(c map[string]any) {
				c["metadata"].(map[string]any)["finalizers"] = []any{"example.com/mine"}
			})
		}},
		{"a token of another account", "nadra-certificates", func() error {
			return maintenance.create(secrets, lab.ControllerNamespace, tokenOf("nadra-webhook-tls"))
		}},
		{"another Secret", "nadra-certificates", func() error {
			return maintenance.create(secrets, lab.ControllerNamespace, `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: a}, data: {tls.crt: "", tls.key: ""}}`)
		}},
		{"a Secret of a generated name", "nadra-certificates", func() error {
			return maintenance.create(secrets, lab.ControllerNamespace, `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {generateName: nadra-webhook-tls}, data: {tls.crt: "", tls.key: ""}}`)
		}},
		{"a Secret elsewhere", "cannot create", func() error {
			return maintenance.create(secrets, "kube-system", `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: nadra-webhook-tls}, data: {tls.crt: "", tls.key: ""}}`)
		}},
	} {
		err := attack.try()
		by := attack.policy
		if strings.HasPrefix(by, "nadra-") {
			by = "ValidatingAdmissionPolicy '" + by
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), by) {
			f.Errorf("%s: %v, want it forbidden by %s", attack.name, err, attack.policy)
		}
	}
}

// shared returns a slice of a profile for nodes of a profile.
func shared(profile, nodes string) string {
	return strings.Replace(slice(lab.DriverName, profile+"-0", "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: nadra.dev/profile, operator: In, values: ['"+nodes+"']}]}]}"),
		"name: attack", "name: attack, labels: {nadra.dev/profile: '"+profile+"'}", 1)
}

func tokenOf(name string) string {
	return `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: ` + name + `, annotations: {kubernetes.io/service-account.name: default}}}`
}

// admin returns a caller with all rights.
func (f *fixture) admin() caller {
	f.Helper()
	config, err := f.Cluster.RESTConfig()
	f.Must(err)
	client, err := dynamic.NewForConfig(config)
	f.Must(err)
	return caller{f, client}
}

// workIsAdmitted writes what the accounts write in their work and TestController does not.
func (f *fixture) workIsAdmitted() {
	node := f.node.Name()
	driver := f.driver()
	here, err := f.Kube.CoreV1().Pods(lab.ControllerNamespace).List(f.Ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	f.Must(err)
	for _, key := range []string{"k8s.v1.cni.cncf.io/network-status", "nadra.dev/retriggered"} {
		f.Must(driver.patch(pods, lab.ControllerNamespace, here.Items[0].Name, `{"metadata":{"annotations":{"`+key+`":"[]"}}}`, "status"))
	}
	f.Must(driver.create(slicesOf, "", slice(lab.DriverName, node+"/x", "nodeName: "+node)))
	f.Must(driver.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":"a"},"annotations":{"nadra.dev/facts":"{}"}}}`))
	f.Must(driver.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":null},"annotations":{"nadra.dev/facts":null}}}`))
	f.Must(driver.patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":"a"}}}`))
	f.Must(f.as(lab.ControllerNamespace, "nadra-controller", "").patch(nodesOf, "", node, `{"metadata":{"labels":{"nadra.dev/profile":null}}}`))
	f.claimStatus(driver)
}

// claimStatus writes the state of devices of an allocated claim.
func (f *fixture) claimStatus(driver caller) {
	store, err := storesDeviceStatus()
	f.Must(err)
	if !store {
		f.Skip("the API server stores no status of devices")
	}
	node, admin := f.node.Name(), f.admin()
	f.Must(f.Apply(f.Ctx, `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: both, namespace: `+f.NS+`},
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: net.nadra.dev}}, {name: b, exactly: {deviceClassName: net.nadra.dev}}, {name: c, exactly: {deviceClassName: net.nadra.dev}},
{name: e, exactly: {deviceClassName: net.nadra.dev}}, {name: f, exactly: {deviceClassName: net.nadra.dev}}]}}}`))
	result := func(request, driver, pool string) string {
		return fmt.Sprintf(`{"request":%q,"driver":%q,"pool":%q,"device":"d"}`, request, driver, pool)
	}
	device := func(driver, pool, condition string) string {
		return fmt.Sprintf(`{"driver":%q,"pool":%q,"device":"d","conditions":[{"type":"Ready","status":%q,"reason":"a","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`, driver, pool, condition)
	}
	const profile = "0123456789abcdef0123456789abcdef" // of which nodes share devices, whose status has the node
	on := func(pool, node, condition string) string {
		return strings.Replace(device(lab.DriverName, pool, condition), "{", fmt.Sprintf(`{"data":{"node":%q},`, node), 1)
	}
	sharedHere, sharedThere := on(profile+"-0", node, "True"), on(profile+"-1", elsewhere, "True")
	ours, gpu, other := device(lab.DriverName, node+"/networks", "True"), device("gpu.example.com", "p", "True"), device(lab.DriverName, elsewhere+"/networks", "True")
	write := func(c caller, dry []string, patch string) error {
		_, err := c.Resource(claims).Namespace(f.NS).Patch(f.Ctx, "both", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry}, "status")
		return err
	}
	f.Must(write(admin, nil, `{"status":{"allocation":{"devices":{"results":[`+result("a", lab.DriverName, node+"/networks")+`,`+
		result("b", "gpu.example.com", "p")+`,`+result("c", lab.DriverName, elsewhere+"/networks")+`,`+
		result("e", lab.DriverName, profile+"-0")+`,`+result("f", lab.DriverName, profile+"-1")+`]},"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["`+node+`"]}]}]}},"devices":[`+gpu+`,`+other+`,`+sharedThere+`]}}`))
	dry := []string{metav1.DryRunAll}
	f.Must(write(driver, dry, `{"status":{"devices":[`+ours+`,`+sharedHere+`,`+gpu+`,`+other+`,`+sharedThere+`]}}`))
	// Kubernetes 1.36 and later refuse these before the policies do.
	refused := func(name string, err error) {
		f.Helper()
		if text := fmt.Sprint(err); !strings.Contains(text, "ValidatingAdmissionPolicy 'nadra-") && !strings.Contains(text, `requires resource="resourceclaims/`) {
			f.Errorf("%s: %v, want it forbidden", name, err)
		}
	}
	for name, patch := range map[string]string{
		"another driver's device removed": `{"status":{"devices":[` + ours + `,` + other + `,` + sharedThere + `]}}`,
		"another driver's device changed": `{"status":{"devices":[` + ours + `,` + device("gpu.example.com", "p", "False") + `,` + other + `,` + sharedThere + `]}}`,
		"another node's device changed":   `{"status":{"devices":[` + gpu + `,` + device(lab.DriverName, elsewhere+"/networks", "False") + `,` + sharedThere + `]}}`,
		"a shared device of another node": `{"status":{"devices":[` + gpu + `,` + other + `,` + on(profile+"-1", elsewhere, "False") + `]}}`,
		"a shared device taken over":      `{"status":{"devices":[` + gpu + `,` + other + `,` + on(profile+"-1", node, "True") + `]}}`,
		"a shared device of another":      `{"status":{"devices":[` + gpu + `,` + other + `,` + sharedThere + `,` + on(profile+"-0", elsewhere, "True") + `]}}`,
		"a shared device of no node":      `{"status":{"devices":[` + gpu + `,` + other + `,` + sharedThere + `,` + device(lab.DriverName, profile+"-0", "True") + `]}}`,
		"the allocation removed":          `{"status":{"allocation":null,"devices":null}}`,
		"a pod that reserves the claim":   `{"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}`,
	} {
		refused(name, write(driver, dry, patch))
	}
	refused("by a token of no node", write(f.as("nadra", "nadra-node", ""), dry, `{"status":{"devices":[`+ours+`,`+gpu+`,`+other+`,`+sharedThere+`]}}`))
	f.Kubectl("-n", f.NS, "delete", "resourceclaim", "both", "--wait=false")
}
