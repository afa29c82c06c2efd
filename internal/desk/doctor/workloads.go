package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// readDaemonSets finds Multus and nadra's own driver.
func (r *reader) readDaemonSets(ctx context.Context) {
	var found []*appsv1.DaemonSet
	each(ctx, r, PartMultus, "daemonsets.apps", kube.All, r.Kube.AppsV1().DaemonSets("").List, func(d *appsv1.DaemonSet) {
		if isMultus(d) {
			found = append(found, d)
		}
		if r.installed.Add(d) {
			r.caps.Nadra = nadraOf(d)
		}
	})
	for _, d := range found {
		r.caps.Multus = append(r.caps.Multus, r.multusOf(ctx, d))
	}
	slices.SortFunc(r.caps.Multus, func(a, b Multus) int {
		return strings.Compare(a.Namespace+"/"+a.DaemonSet, b.Namespace+"/"+b.DaemonSet)
	})
}

// Driver returns the DaemonSet of nadra's driver in a namespace, whose image and directories nadra's pods on nodes have:
// a tenant may have one that looks like it in another. It returns nil if there is none or if the user may not list
// DaemonSets. Without a namespace it returns the oldest, for what no pod with access to the host does.
func Driver(ctx context.Context, client kubernetes.Interface, namespace string) (*Nadra, error) {
	var installed installation.Settings
	var out *Nadra
	_, err := kube.EachReadable(ctx, kube.All, client.AppsV1().DaemonSets(namespace).List, func(d *appsv1.DaemonSet) {
		if installed.Add(d) {
			out = nadraOf(d)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("looking for nadra's driver: %w", err)
	}
	return out, nil
}

// nadraOf returns a DaemonSet that runs nadra's driver.
func nadraOf(d *appsv1.DaemonSet) *Nadra {
	spec := &d.Spec.Template.Spec
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == installation.DriverContainer })
	out := &Nadra{
		Namespace: d.Namespace, DaemonSet: d.Name, Image: spec.Containers[i].Image, Args: spec.Containers[i].Args,
		Ready: d.Status.NumberReady, Desired: d.Status.DesiredNumberScheduled,
	}
	for _, s := range spec.ImagePullSecrets {
		out.PullSecrets = append(out.PullSecrets, s.Name)
	}
	return out
}

// known lists schedulers, queues and autoscalers, which are recognized by an API group that they install or by the name
// of a Deployment.
var known = []struct{ name, kind, group, deployment string }{
	{"cluster-autoscaler", Autoscaler, "", "cluster-autoscaler"},
	{"karpenter", Autoscaler, "karpenter.sh", "karpenter"},
	{"kai-scheduler", Scheduler, "", "kai-scheduler"},
	{"koordinator", Scheduler, "scheduling.koordinator.sh", "koord-scheduler"},
	{"kueue", Scheduler, "kueue.x-k8s.io", "kueue-controller-manager"},
	{"run:ai", Scheduler, "run.ai", "runai-scheduler"},
	{"scheduler-plugins", Scheduler, "", "scheduler-plugins-scheduler"},
	{"volcano", Scheduler, "scheduling.volcano.sh", "volcano-scheduler"},
	{"yunikorn", Scheduler, "", "yunikorn-scheduler"},
}

// autoscalerStatus is the ConfigMap of kube-system that cluster-autoscaler writes, also where it runs outside of the
// cluster, as clouds run it.
const autoscalerStatus = "cluster-autoscaler-status"

// readComponents finds known schedulers and autoscalers, and nadra's own controller.
func (r *reader) readComponents(ctx context.Context) {
	where := map[string]string{}
	each(ctx, r, PartComponents, "deployments.apps", kube.All, r.Kube.AppsV1().Deployments("").List,
		func(d *appsv1.Deployment) {
			if r.installed.Add(d) {
				r.caps.Controller = &Controller{
					Namespace: d.Namespace, Deployment: d.Name, Args: r.installed.Controller.Args, Ready: d.Status.ReadyReplicas, Desired: ptr.Deref(d.Spec.Replicas, 1),
				}
			}
			for _, k := range known {
				// The operator of OpenShift's cluster-autoscaler runs in every cluster, without the autoscaler.
				if strings.Contains(d.Name, k.deployment) && !strings.HasSuffix(d.Name, "-operator") && where[k.name] == "" {
					where[k.name] = "Deployment " + d.Namespace + "/" + d.Name
				}
			}
		})
	_, err := r.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, autoscalerStatus, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && !r.failed(Autoscaler, "", err, "the right to get configmaps of namespace kube-system") {
		where["cluster-autoscaler"] = cmp.Or(where["cluster-autoscaler"], "ConfigMap "+metav1.NamespaceSystem+"/"+autoscalerStatus)
	}
	for _, k := range known {
		if where[k.name] == "" && k.group != "" && slices.Contains(r.groups, k.group) {
			where[k.name] = "API group " + k.group
		}
		if where[k.name] != "" {
			r.caps.Components = append(r.caps.Components, Component{Name: k.name, Kind: k.kind, Where: where[k.name]})
		}
	}
}

// readPods finds mirrors of static pods that name networks, pods that wait for networks, and the nodes on which nadra's
// driver is ready.
func (r *reader) readPods(ctx context.Context) {
	var claiming []*corev1.Pod
	each(ctx, r, PartPods, "pods", kube.All, r.Kube.CoreV1().Pods("").List, func(p *corev1.Pod) {
		r.addStaticPod(p)
		switch {
		case p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil || p.Spec.HostNetwork:
		case attachment.NamesNetworks(p):
			r.caps.Waiting = append(r.caps.Waiting, p.Namespace+"/"+p.Name)
		case len(p.Spec.ResourceClaims) > 0:
			slim := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}} // p is a part of its page
			slim.Spec.ResourceClaims = p.Spec.ResourceClaims
			claiming = append(claiming, slim)
		}
		if n := r.caps.Nadra; n != nil && installation.DriverReady(p, n.Namespace) && !slices.Contains(n.ReadyNodes, p.Spec.NodeName) {
			n.ReadyNodes = append(n.ReadyNodes, p.Spec.NodeName)
		}
	})
	r.addClaiming(ctx, claiming)
	slices.Sort(r.caps.Waiting)
	if r.caps.Nadra != nil {
		slices.Sort(r.caps.Nadra.ReadyNodes)
	}
	slices.SortFunc(r.caps.StaticPods, func(a, b StaticPod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

// addClaiming adds those of some pods to the waiting ones that have a claim for networks.
func (r *reader) addClaiming(ctx context.Context, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	claims, templates := map[string]bool{}, map[string]bool{}
	note := func(of map[string]bool, o metav1.Object, spec resourceapi.ResourceClaimSpec) {
		of[o.GetNamespace()+"/"+o.GetName()] = len(attachment.RequestsOfClaim(spec, o.GetNamespace(), nil).Names) > 0
	}
	resources := r.Kube.ResourceV1()
	err := errors.Join(
		kube.EachItem(ctx, kube.All, resources.ResourceClaims("").List, func(c *resourceapi.ResourceClaim) { note(claims, c, c.Spec) }),
		kube.EachItem(ctx, kube.All, resources.ResourceClaimTemplates("").List, func(t *resourceapi.ResourceClaimTemplate) { note(templates, t, t.Spec.Spec) }),
	)
	r.failed(PartClaims, "", err, "the right to list resourceclaims and resourceclaimtemplates of resource.k8s.io")
	for _, p := range pods {
		if slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
			return claims[p.Namespace+"/"+ptr.Deref(c.ResourceClaimName, "")] || templates[p.Namespace+"/"+ptr.Deref(c.ResourceClaimTemplateName, "")]
		}) {
			r.caps.Waiting = append(r.caps.Waiting, p.Namespace+"/"+p.Name)
		}
	}
}

// addStaticPod adds a pod to the static ones if it is a mirror that names networks.
func (r *reader) addStaticPod(p *corev1.Pod) {
	var networks []string
	for _, key := range []string{attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation, attachment.DefaultNetworkAnnotation} {
		if v := p.Annotations[key]; v != "" {
			networks = append(networks, v)
		}
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror && len(networks) > 0 {
		r.caps.StaticPods = append(r.caps.StaticPods, StaticPod{
			Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Networks: strings.Join(networks, "; "),
			Own: attachment.NamesOwn(p.Annotations),
		})
	}
}
