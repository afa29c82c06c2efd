// Package canaryrun runs the canaries that package canary has planned, and deletes
// them again in every case.
package canaryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/canary"
)

// Runner runs canaries.
type Runner struct {
	Kube kubernetes.Interface
	Exec Exec
	// Parallel is how many canaries there are at a time. Those of one network
	// are there together, however many they are.
	Parallel int
	// Poll is how often a pod is asked for; the zero value is for tests.
	Poll time.Duration
	// Progress is told what is done now.
	Progress func(string)
}

// goneWithin is how long deleted canaries may take to be gone, with their
// networks: also after the user has interrupted all else.
const goneWithin = time.Minute

// Run runs a plan. No canary of it is left when it returns, but for those that
// the report names.
func (r Runner) Run(ctx context.Context, plan *canary.Plan) (*canary.Report, error) {
	if err := r.sweep(ctx, plan); err != nil {
		return nil, err
	}
	reports := make([]canary.NetworkReport, len(plan.Networks))
	tokens := semaphore.NewWeighted(int64(max(r.Parallel, 1)))
	var mu sync.Mutex // of left and done
	var left []string
	var done int
	var group sync.WaitGroup
	for i := range plan.Networks {
		n := &plan.Networks[i]
		weight := int64(min(len(n.Pods), max(r.Parallel, 1)))
		if tokens.Acquire(ctx, weight) != nil {
			break // the user has interrupted it
		}
		group.Go(func() {
			defer tokens.Release(weight)
			var behind []string
			reports[i], behind = r.network(ctx, plan, n)
			mu.Lock()
			defer mu.Unlock()
			left = append(left, behind...)
			done++
			r.say("Trying networks: %d of %d", done, len(plan.Networks))
		})
	}
	group.Wait()
	slices.Sort(left)
	if ctx.Err() != nil {
		err := fmt.Errorf("trying networks: %w", ctx.Err())
		if len(left) > 0 {
			err = fmt.Errorf("%w; canaries are left behind: %v", err, left)
		}
		return nil, err
	}
	return canary.NewReport(plan.Source, reports, left), nil
}

func (r Runner) say(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// sweep deletes what an earlier run has left in the namespaces of the plan.
func (r Runner) sweep(ctx context.Context, plan *canary.Plan) error {
	var old []canary.Pod
	for _, namespace := range plan.Namespaces() {
		list, err := r.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: canary.Selector()})
		if err != nil {
			return fmt.Errorf("looking for canaries of an earlier run in namespace %s: %w", namespace, err)
		}
		for _, p := range list.Items {
			old = append(old, canary.Pod{Namespace: p.Namespace, Name: p.Name})
		}
	}
	if len(old) == 0 {
		return nil
	}
	r.say("Deleting %d canaries of an earlier run", len(old))
	if left, err := r.remove(ctx, old); len(left) > 0 {
		return fmt.Errorf("deleting canaries of an earlier run: %v are still there: %w", left, err)
	}
	return nil
}

// network runs the canaries of one network.
func (r Runner) network(ctx context.Context, plan *canary.Plan, n *canary.NetworkPlan) (report canary.NetworkReport, left []string) {
	if len(n.Pods) == 0 {
		return n.Evaluate(nil), nil
	}
	results := make([]canary.Result, len(n.Pods))
	each := func(do func(int, *canary.Result)) {
		var group sync.WaitGroup
		for i := range results {
			if results[i].Err == nil {
				group.Go(func() { do(i, &results[i]) })
			}
		}
		group.Wait()
	}
	for i, c := range n.Pods {
		results[i].Pod = c
	}
	each(func(_ int, c *canary.Result) { r.start(ctx, plan, n, c) })
	each(func(_ int, c *canary.Result) { r.look(ctx, c) })
	// What others are pinged by does not change meanwhile.
	targets := make([][]string, len(results))
	for i := range results {
		targets[i] = canary.Targets(results, i)
	}
	each(func(i int, c *canary.Result) { r.ping(ctx, c, targets[i]) })
	report = n.Evaluate(results)
	left, _ = r.remove(ctx, n.Pods) // the report says which
	return report, left
}

// remove deletes canaries and waits until they are gone, also when ctx has
// ended. It returns those that are not, and why.
func (r Runner) remove(ctx context.Context, pods []canary.Pod) (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneWithin)
	defer cancel()
	var errs []error
	for _, c := range pods {
		err := r.Kube.CoreV1().Pods(c.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	there := slices.Clone(pods)
	for {
		there = slices.DeleteFunc(there, func(c canary.Pod) bool {
			_, err := r.Kube.CoreV1().Pods(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		if len(there) == 0 || len(errs) > 0 || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.Poll):
		}
	}
	for _, c := range there {
		left = append(left, c.Namespace+"/"+c.Name)
	}
	return left, errors.Join(append(errs, ctx.Err())...)
}

// isReady reports whether a pod is.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
