package upgraderun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// logTail is the number of lines of a pod's log in an error.
const logTail = 10

// hookJobs runs hooks that are Jobs.
type hookJobs struct {
	env
	limit time.Duration
}

// check has the API server check a Job without creating it: its manifest, its namespace,
// and the right to create it.
func (j *hookJobs) check(ctx context.Context, manifest *batchv1.Job, run upgrade.HookRun) error {
	if j.dry == "client" {
		return nil
	}
	job := j.job(manifest, run)
	_, err := j.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return reason.Errorf(reason.HookJobRefused, "creating a Job in namespace %s: %w", job.Namespace, err)
	}
	return nil
}

// job returns the Job of a run, with a name of its own.
func (j *hookJobs) job(manifest *batchv1.Job, run upgrade.HookRun) *batchv1.Job {
	job := run.NewJob(manifest, max(int64(j.limit.Seconds()), 1))
	job.Name, job.GenerateName = job.GenerateName+rand.String(5), ""
	return job
}

// run creates a Job and waits until it ends. It deletes a Job that completed, unless its
// TTL does, and one that it does not wait for any more. A Job that failed stays until the
// hook runs again, for people to look at.
func (j *hookJobs) run(ctx context.Context, manifest *batchv1.Job, where string, run upgrade.HookRun) error {
	if err := j.clear(ctx, manifest.Namespace, run); err != nil {
		return err
	}
	job := j.job(manifest, run)
	if _, err := j.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		if ctx.Err() != nil { // the API server may have created it all the same
			err = errors.Join(err, j.remove(ctx, job))
		}
		return reason.Wrap(reason.HookJobRefused, fmt.Errorf("creating a Job in namespace %s: %w", job.Namespace, err))
	}
	j.say("%s: Job %s/%s is created", where, job.Namespace, job.Name)
	var failure string
	err := j.await(ctx, j.limit, reason.HookTimeout, func(ctx context.Context) (missing string, err error) {
		failure, missing, err = j.state(ctx, job)
		return missing, err
	})
	object := "Job " + job.Namespace + "/" + job.Name
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.Join(err, j.remove(ctx, job))
	case err != nil && reason.Of(err) == reason.HookTimeout:
		log := j.tail(ctx, job)
		return errors.Join(fmt.Errorf("waiting for %s: %w%s", object, err, log), j.remove(ctx, job))
	case err != nil:
		return reason.Wrap(reason.HookFailed, fmt.Errorf("waiting for %s: %w", object, err))
	case failure != "":
		return reason.Errorf(reason.HookFailed, "%s failed: %s%s", object, failure, j.tail(ctx, job))
	case job.Spec.TTLSecondsAfterFinished != nil:
		return nil
	}
	if err := j.remove(ctx, job); err != nil {
		j.say("%s: %v", where, err) // what it was to do is done
	}
	return nil
}

// clear deletes the Jobs of earlier runs of the same hook, of which one may still run if
// its process was killed, and waits until they are gone with their pods.
func (j *hookJobs) clear(ctx context.Context, namespace string, run upgrade.HookRun) error {
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{
		upgrade.HookLabel: string(run.Point), upgrade.HookWaveLabel: strconv.Itoa(run.Number),
	}).String()}
	return j.await(ctx, j.limit, reason.HookTimeout, func(ctx context.Context) (string, error) {
		list, err := j.kube.BatchV1().Jobs(namespace).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("listing the Jobs of earlier runs in namespace %s: %w", namespace, err)
		}
		missing := ""
		for i := range list.Items {
			job := &list.Items[i]
			missing = fmt.Sprintf("Job %s/%s of an earlier run is being deleted", namespace, job.Name)
			if job.DeletionTimestamp != nil {
				continue
			}
			err := j.kube.BatchV1().Jobs(namespace).Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
			if err != nil && !apierrors.IsNotFound(err) {
				return "", fmt.Errorf("deleting Job %s/%s of an earlier run: %w", namespace, job.Name, err)
			}
		}
		return missing, nil
	})
}

// state reads a Job. If it has failed, failure has the reason; while it has not ended,
// missing describes its state.
func (j *hookJobs) state(ctx context.Context, job *batchv1.Job) (failure, missing string, err error) {
	now, err := j.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("reading it: %w", err)
	}
	for _, c := range now.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return "", "", nil
		case c.Type == batchv1.JobFailed:
			return cmp.Or(strings.TrimSpace(c.Reason+": "+c.Message), "it has no reason"), "", nil
		case c.Type == batchv1.JobSuspended:
			return "", "it is suspended", nil
		}
	}
	pod, err := j.pod(ctx, job)
	switch {
	case err != nil:
		return "", "", err
	case pod == nil:
		return "", "it has no pod", nil
	}
	return "", "pod " + pod.Name + ": " + nodepod.State(pod), nil
}

// pod returns the youngest pod of a Job, or nil without one.
func (j *hookJobs) pod(ctx context.Context, job *batchv1.Job) (*corev1.Pod, error) {
	selector := labels.SelectorFromSet(labels.Set{batchv1.JobNameLabel: job.Name}).String()
	list, err := j.kube.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing its pods: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	youngest := slices.MaxFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return &youngest, nil
}

// tail returns the end of the log of a Job's youngest pod for an error message. A log that
// cannot be read is no reason to hide the error.
func (j *hookJobs) tail(ctx context.Context, job *batchv1.Job) string {
	pod, err := j.pod(ctx, job)
	if err != nil || pod == nil {
		return "; it has no pod whose log could be read"
	}
	options := &corev1.PodLogOptions{Container: failedContainer(pod), TailLines: ptr.To[int64](logTail)}
	log, err := j.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil {
		return fmt.Sprintf("; reading the log of pod %s: %v", pod.Name, err)
	}
	text := strings.TrimSpace(upgrade.Visible(string(log)))
	if text == "" {
		return "; the log of pod " + pod.Name + " is empty"
	}
	return "; the end of the log of pod " + pod.Name + ": " + text
}

// failedContainer returns the name of a pod's first container that failed, or else of its
// first container.
func failedContainer(pod *corev1.Pod) string {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return s.Name
		}
	}
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}

// remove deletes a Job with its pods, also if ctx has ended.
func (j *hookJobs) remove(ctx context.Context, job *batchv1.Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), savingTime)
	defer cancel()
	err := j.kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Job %s/%s, which is left behind: %w", job.Namespace, job.Name, err)
	}
	return nil
}
