package bundleread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// logAtMost is how much of a log is kept, its end; linesAtMost is how many
	// lines the kubelet is asked for.
	logAtMost   = 2 << 20
	linesAtMost = 50_000
	// metricsAtMost is how much of a driver's metrics is kept.
	metricsAtMost = 4 << 20
	// podsAtMost is of how many pods there are logs, those that are not ready
	// first.
	podsAtMost = 50
	// podWithin is how long one log, or the metrics of one pod, may take.
	podWithin = 30 * time.Second
)

// logs adds the logs and metrics of nadra's own pods.
func (r *collector) logs(ctx context.Context) error {
	pods := slices.Clone(r.pods)
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return readiness(&a) - readiness(&b) })
	if len(pods) > podsAtMost {
		r.out.AddGap(fmt.Sprintf("logs and metrics of %d pods of nadra", len(pods)-podsAtMost),
			fmt.Sprintf("they are of %d pods at most, those that are not ready first", podsAtMost), "--nodes, for others")
		pods = pods[:podsAtMost]
	}
	for i := range pods {
		r.podLogs(ctx, &pods[i])
		r.metrics(ctx, &pods[i])
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading logs: %w", err)
		}
	}
	return nil
}

// readiness is 1 for pods that are ready, which come last.
func readiness(p *corev1.Pod) int {
	ready := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
	if slices.ContainsFunc(p.Status.Conditions, ready) {
		return 1
	}
	return 0
}

func (r *collector) podLogs(ctx context.Context, p *corev1.Pod) {
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		base := "logs/" + p.Namespace + "/" + p.Name + "/" + s.Name
		r.log(ctx, p, base+".log", &corev1.PodLogOptions{
			Container: s.Name, TailLines: ptr.To[int64](linesAtMost), SinceSeconds: ptr.To(max(int64(r.Since.Seconds()), 1)),
		})
		if s.RestartCount > 0 { // what it died of may be older
			r.log(ctx, p, base+".previous.log", &corev1.PodLogOptions{Container: s.Name, Previous: true, TailLines: ptr.To[int64](linesAtMost)})
		}
	}
}

func (r *collector) log(ctx context.Context, p *corev1.Pod, name string, o *corev1.PodLogOptions) {
	ctx, cancel := context.WithTimeout(ctx, podWithin)
	defer cancel()
	text, cut, err := func() (string, string, error) {
		stream, err := r.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).Stream(ctx)
		if err != nil {
			return "", "", err
		}
		text, cut, err := tail(stream, logAtMost)
		return text, cut, errors.Join(err, stream.Close())
	}()
	if r.failed(name, err, "the right to get pods/log in namespace "+p.Namespace) && text == "" {
		return
	}
	r.out.AddText(name, "log of container "+o.Container+" on node "+p.Spec.NodeName, text, cut)
}

// tail reads all, and keeps the last lines that are no more than limit together.
func tail(from io.Reader, limit int) (text, cut string, err error) {
	var kept []byte
	dropped := 0
	chunk := make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = from.Read(chunk)
		kept = append(kept, chunk[:n]...)
		if len(kept) > 2*limit {
			dropped += len(kept) - limit
			kept = append(kept[:0], kept[len(kept)-limit:]...)
		}
	}
	if err == io.EOF {
		err = nil
	}
	if over := len(kept) - limit; over > 0 {
		dropped += over
		kept = kept[over:]
	}
	if dropped > 0 {
		if line := slices.Index(kept, '\n'); line >= 0 { // of which the beginning is gone
			dropped += line + 1
			kept = kept[line+1:]
		}
		cut = fmt.Sprintf("%d bytes before it are left out", dropped)
	}
	return string(kept), cut, err
}

func (r *collector) metrics(ctx context.Context, p *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, podWithin)
	defer cancel()
	text, err := r.Raw(ctx, "/api/v1/namespaces/"+url.PathEscape(p.Namespace)+"/pods/"+url.PathEscape(p.Name)+":"+metricsPort(p)+"/proxy/metrics")
	if r.failed("metrics of pod "+p.Namespace+"/"+p.Name, err, "the right to get pods/proxy in namespace "+p.Namespace+", and that the API server reaches the pod") {
		return
	}
	cut := ""
	if over := len(text) - metricsAtMost; over > 0 {
		text, cut = text[:metricsAtMost], fmt.Sprintf("%d bytes behind it are left out", over)
	}
	r.out.AddText("metrics/"+p.Namespace+"/"+p.Name+".prom", "metrics, from node "+p.Spec.NodeName, string(text), cut)
}

// metricsPort is the one that is called so: the driver's has its checks, too.
func metricsPort(p *corev1.Pod) string {
	for _, name := range []string{"metrics", "http"} {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				if port.Name == name {
					return strconv.Itoa(int(port.ContainerPort))
				}
			}
		}
	}
	return "9078"
}
