package canary

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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
)

// Runner runs canaries.
type Runner struct {
	Kube kubernetes.Interface
	Exec Exec
	// Parallel limits the number of canaries at a time. The canaries of one network
	// always run together.
	Parallel int
	// Poll is the time between two reads of a pod; it is zero in tests only.
	Poll time.Duration
	// Progress is called with the current activity; it may be nil.
	Progress func(string)
}

// removeTimeout limits the removal of canaries with their networks, also after an
// interruption.
const removeTimeout = time.Minute

// Run runs a plan. When it returns, its canaries are gone, unless the report lists them.
func (r Runner) Run(ctx context.Context, plan *Plan) (*Report, error) {
	if err := r.sweep(ctx, plan); err != nil {
		return nil, err
	}
	reports := make([]NetworkReport, len(plan.Networks))
	tokens := semaphore.NewWeighted(int64(max(r.Parallel, 1)))
	var mu sync.Mutex // guards left and done
	var left []string
	var done int
	var group sync.WaitGroup
	for i := range plan.Networks {
		n := &plan.Networks[i]
		weight := int64(min(len(n.Pods), max(r.Parallel, 1)))
		if tokens.Acquire(ctx, weight) != nil {
			break // interrupted
		}
		group.Go(func() {
			defer tokens.Release(weight)
			var behind []string
			reports[i], behind = r.network(ctx, plan, n)
			mu.Lock()
			defer mu.Unlock()
			left = append(left, behind...)
			done++
			r.progress("Testing networks: %d of %d", done, len(plan.Networks))
		})
	}
	group.Wait()
	slices.Sort(left)
	if ctx.Err() != nil {
		err := fmt.Errorf("testing networks: %w", ctx.Err())
		if len(left) > 0 {
			err = fmt.Errorf("%w; canaries are left behind: %v", err, left)
		}
		return nil, err
	}
	return NewReport(plan.Source, reports, left), nil
}

func (r Runner) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// sweep deletes canaries of an earlier run in the namespaces of the plan.
func (r Runner) sweep(ctx context.Context, plan *Plan) error {
	var old []Pod
	for _, namespace := range plan.Namespaces() {
		list := r.Kube.CoreV1().Pods(namespace).List
		err := kube.EachItem(ctx, metav1.ListOptions{LabelSelector: Selector()}, list, func(p *corev1.Pod) {
			old = append(old, Pod{Namespace: p.Namespace, Name: p.Name})
		})
		if err != nil {
			return fmt.Errorf("listing canaries of an earlier run in namespace %s: %w", namespace, err)
		}
	}
	if len(old) == 0 {
		return nil
	}
	r.progress("Deleting %d canaries of an earlier run", len(old))
	if left, err := r.remove(ctx, old); len(left) > 0 {
		return fmt.Errorf("deleting canaries of an earlier run: %v still exist: %w", left, err)
	}
	return nil
}

// network runs the canaries of a network.
func (r Runner) network(ctx context.Context, plan *Plan, n *NetworkPlan) (report NetworkReport, left []string) {
	if len(n.Pods) == 0 {
		return n.evaluate(nil), nil
	}
	results := make([]Result, len(n.Pods))
	each := func(do func(int, *Result)) {
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
	each(func(_ int, c *Result) { r.start(ctx, plan, n, c) })
	each(func(_ int, c *Result) { r.inspect(ctx, c) })
	// Before the first ping, which may set the Err of a canary.
	targets := make([][]string, len(results))
	for i := range results {
		targets[i] = addressesFor(results, i)
	}
	each(func(i int, c *Result) { r.ping(ctx, c, targets[i]) })
	report = n.evaluate(results)
	left, _ = r.remove(ctx, n.Pods) // the report lists them
	return report, left
}

// remove deletes canaries and waits until they are gone, also if ctx has ended. It returns
// canaries that remain, and why.
func (r Runner) remove(ctx context.Context, pods []Pod) (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, c := range pods {
		err := r.Kube.CoreV1().Pods(c.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	remaining := slices.Clone(pods)
	// The only error is the end of ctx, which is added to errs below.
	_ = wait.PollUntilContextCancel(ctx, r.Poll, true, func(ctx context.Context) (bool, error) {
		remaining = slices.DeleteFunc(remaining, func(c Pod) bool {
			_, err := r.Kube.CoreV1().Pods(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		return len(remaining) == 0 || len(errs) > 0, nil
	})
	for _, c := range remaining {
		left = append(left, c.Namespace+"/"+c.Name)
	}
	return left, errors.Join(append(errs, ctx.Err())...)
}
