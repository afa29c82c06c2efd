package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/report"
)

// maxExplained limits the pods of a workload that are inspected, each with several requests.
const maxExplained = 10

// isObject reports whether the arguments name an object in kubectl's form, TYPE/NAME or TYPE NAME. The other
// arguments of explain are codes.
func isObject(args []string) bool {
	return len(args) > 0 && (strings.Contains(args[0], "/") || slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(args[0])))
}

// explainObject shows where the chain from a pod's request to its interfaces breaks: for a workload, of its first pod
// for which it does. Its exit code is CodeBlockers if it does.
func (a *app) explainObject(ctx context.Context, args []string, flags *printFlags) error {
	kind, name, slash := strings.Cut(args[0], "/")
	if slash == (len(args) > 1) || slash && (kind == "" || name == "") {
		return fmt.Errorf("reading %q: write TYPE/NAME, such as pod/web or deploy/web", strings.Join(args, " "))
	}
	printer, err := flags.toPrinter(false)
	if err != nil {
		return err
	}
	cluster, err := a.cluster.live()
	if err != nil {
		return err
	}
	names, err := a.podsOf(ctx, cluster, args)
	if err != nil {
		return err
	}
	var c *inspect.Chain
	for _, name := range names {
		in, err := cluster.Pod(ctx, name)
		if err != nil {
			return err
		}
		if one := inspect.Explain(in); c == nil || one.Verdict == inspect.ChainFailed {
			c = &one
		}
		if c.Verdict == inspect.ChainFailed {
			break
		}
	}
	if printer == nil {
		err = c.Text(report.Printable{Writer: a.Out})
	} else {
		err = printObject(a.Out, printer, c, c.Namespace, c.Pod)
	}
	if err == nil && c.Verdict == inspect.ChainFailed {
		err = exitError(CodeBlockers)
	}
	return err
}

// podsOf returns the names of the pods of an object, those first that are not ready, and at most maxExplained.
func (a *app) podsOf(ctx context.Context, cluster inspect.Cluster, args []string) ([]string, error) {
	if kind, name, _ := strings.Cut(strings.Join(args, "/"), "/"); slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind)) {
		return []string{name}, nil
	}
	object, err := resource.NewBuilder(a.cluster).WithScheme(scheme.Scheme, scheme.Scheme.PrioritizedVersionsAllGroups()...).
		NamespaceParam(cluster.Namespace).DefaultNamespace().ResourceTypeOrNameArgs(false, args...).SingleResourceType().Do().Object()
	if err != nil {
		return nil, fmt.Errorf("reading %s, and the cluster's kinds (GET /api and /apis) first: %w", args[0], err)
	}
	_, selector, err := polymorphichelpers.SelectorsForObject(object)
	if err != nil {
		return nil, fmt.Errorf("finding the pods of %s: %w: explain one of its pods: pod/NAME", args[0], err)
	}
	pods, err := cluster.Kube.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: 500})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", args[0], err)
	}
	failure := createFailure(object)
	switch {
	case len(pods.Items) == 0:
		return nil, fmt.Errorf("explaining %s: it has no pods in namespace %s: %s", args[0], cluster.Namespace, cmp.Or(failure, "kubectl describe "+args[0]+" may say why"))
	case failure != "":
		_, _ = fmt.Fprintf(a.ErrOut, "%s\n", report.Visible(args[0]+" cannot have more pods: "+failure))
	}
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int { return readiness(a) - readiness(b) })
	var out []string
	for _, p := range pods.Items[:min(len(pods.Items), maxExplained)] {
		out = append(out, p.Name)
	}
	return out, nil
}

// createFailure returns why a workload's pods cannot be created: the API server, a quota or a webhook refuses them.
func createFailure(object runtime.Object) string {
	switch o := object.(type) {
	case *appsv1.Deployment:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	case *appsv1.ReplicaSet:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	return ""
}

// readiness returns 1 for a pod that is ready, or has ended, and 0 for another one.
func readiness(p corev1.Pod) int {
	if p.Status.Phase == corev1.PodSucceeded || podutils.IsPodReady(&p) {
		return 1
	}
	return 0
}
