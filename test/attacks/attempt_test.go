//go:build e2e

package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// rowLimit is how long a row may take on a busy machine.
	rowLimit = 6 * time.Minute
	// bareExit is the exit code of a container that finds no secondary network when it starts.
	bareExit = 42
)

// attempt is a row, or the group of rows of one attacker. Its namespace belongs to the attacker.
type attempt struct {
	lab.Fixture
	// node is where pods that the rows compare run.
	node *cluster.Node
	// tenant has the rights of a tenant of the namespace.
	tenant kubernetes.Interface
	harm   string
}

// setup creates the attacker's namespace, which nadra serves, with a tenant who may edit it, and a
// network n on a bridge.
func setup(t *testing.T, namespace string) *attempt {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, 20*time.Minute)
	t.Cleanup(cancel)
	a := &attempt{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}, node: theLab.Cluster.Node(1)}
	a.namespace(namespace)
	a.tenant = a.tenantOf(namespace)
	t.Cleanup(func() { a.clear(namespace) })
	return a
}

// try runs a row of a group and counts its result.
func (a *attempt) try(name string, play func(*attempt)) {
	a.Helper()
	a.Run(name, func(t *testing.T) {
		row := *a
		row.T = t
		var cancel context.CancelFunc
		row.Ctx, cancel = context.WithTimeout(a.Ctx, rowLimit)
		defer cancel()
		t.Cleanup(func() { results.add(t.Name(), row.harm, t.Failed()) })
		play(&row)
	})
}

// tryBeside does the same beside other such rows of the group, which only wait.
func (a *attempt) tryBeside(name string, play func(*attempt)) {
	a.Helper()
	a.try(name, func(row *attempt) {
		row.Parallel()
		play(row)
	})
}

// harmed records the harm of the row, and fails it.
func (a *attempt) harmed(format string, args ...any) {
	a.Helper()
	harm := fmt.Sprintf(format, args...)
	a.Errorf("harm: %s", harm)
	if a.harm != "" {
		harm = a.harm + "; " + harm
	}
	a.harm = harm
}

// refused checks the answer to an attempt: success is harm, and a refusal must be forbidden or have
// one of nadra's codes.
func (a *attempt) refused(err error, format string, args ...any) {
	a.Helper()
	did := fmt.Sprintf(format, args...)
	switch {
	case err == nil:
		a.harmed("allowed: %s", did)
	case !apierrors.IsForbidden(err) && reason.In(err.Error()) == "":
		a.Errorf("%s: the refusal is not clear: %v", did, err)
	default:
		a.Logf("%s: %v", did, err)
	}
}

// namespace creates a namespace that nadra serves, with network n.
func (a *attempt) namespace(name string) {
	a.Helper()
	a.Must(a.CreateNamespace(a.Ctx, name))
	a.Must(a.Label(a.Ctx, "namespace/"+name, api.OwnerNadra))
	a.Must(a.CreateNAD(a.Ctx, name, "n", bridged("br-"+name[:min(len(name), 8)], `{}`)))
	a.Must(a.Published(a.Ctx, name+"/n"))
}

// clear deletes the pods of a namespace, and the namespace.
func (a *attempt) clear(namespace string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), 4*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"-n", namespace, "delete", "pods", "--all", "--grace-period=1", "--timeout=200s"},
		{"-n", namespace, "delete", "network-attachment-definitions", "--all"},
		{"delete", "namespace", namespace, "--wait=false"},
	} {
		if _, err := a.Cluster.Kubectl(ctx, args...); err != nil {
			a.Errorf("cleaning up: %v", err)
		}
	}
}

// tenantOf returns a client with the rights of a tenant: the role edit, and debugging of pods.
func (a *attempt) tenantOf(namespace string) kubernetes.Interface {
	a.Helper()
	const name = "tenant"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	_, err := a.Kube.CoreV1().ServiceAccounts(namespace).Create(a.Ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	a.Must(err)
	_, err = a.Kube.RbacV1().Roles(namespace).Create(a.Ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"get", "patch", "update"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaimtemplates"}, Verbs: []string{"*"}},
	}}, metav1.CreateOptions{})
	a.Must(err)
	for binding, role := range map[string]rbacv1.RoleRef{"edit": {Kind: "ClusterRole", Name: "edit"}, name: {Kind: "Role", Name: name}} {
		role.APIGroup = rbacv1.GroupName
		_, err = a.Kube.RbacV1().RoleBindings(namespace).Create(a.Ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binding},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}, RoleRef: role,
		}, metav1.CreateOptions{})
		a.Must(err)
	}
	return a.as(namespace, name, nil)
}

// as returns a client with a new token of a service account, bound to a pod unless that is nil.
func (a *attempt) as(namespace, account string, pod *corev1.Pod) kubernetes.Interface {
	a.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	token, err := a.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(a.Ctx, account, request, metav1.CreateOptions{})
	a.Must(err)
	admin, err := a.Cluster.RESTConfig()
	a.Must(err)
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	config.QPS, config.Burst = 200, 400
	kube, err := kubernetes.NewForConfig(config)
	a.Must(err)
	return kube
}

// bridged returns the configuration of a network on a bridge.
func bridged(bridge, ipam string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":%q,"ipam":%s}`, bridge, ipam)
}

// pod returns a pod that requests networks by the annotation and ends with bareExit if it starts
// without net1. It is never restarted, so that the end stays visible.
func (a *attempt) pod(name, networks string) *corev1.Pod {
	p := plain(a.NS, name)
	p.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: networks}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.Containers[0].Command = needing("net1")
	return p
}

// needing returns a command that ends with bareExit unless there is an interface, and then sleeps.
func needing(iface string) []string {
	return []string{"/bin/sh", "-c", fmt.Sprintf("ip link show %s || exit %d; trap 'exit 0' TERM; sleep infinity & wait", iface, bareExit)}
}

// plain returns a pod that sleeps and has no networks.
func plain(namespace, name string) *corev1.Pod {
	p := lab.Pod(namespace, name, "")
	p.Spec.ResourceClaims, p.Spec.Containers[0].Resources.Claims = nil, nil
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	return p
}

// isBare reports whether a container has started without the network that it needs.
func isBare(s corev1.ContainerStatus) bool {
	for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
		if state.Terminated != nil && state.Terminated.ExitCode == bareExit {
			return true
		}
	}
	return false
}

// anyBare returns the name of a container of the pod that has started without its network, or "".
func anyBare(p *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			if isBare(s) {
				return s.Name
			}
		}
	}
	return ""
}

// annotate changes the networks annotation of a pod as the tenant.
func (a *attempt) annotate(pod, networks string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkAttachmentAnnot: networks}}})
	if err != nil {
		return err
	}
	_, err = a.tenant.CoreV1().Pods(a.NS).Patch(a.Ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// throughout checks for a time that a condition holds, for harm that would come late.
func (a *attempt) throughout(limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(a.Ctx, limit)
	defer cancel()
	tick := time.NewTicker(limit / 10)
	defer tick.Stop()
	for {
		if err := check(a.Ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
