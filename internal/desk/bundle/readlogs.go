package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
)

const (
	// maxLog limits the bytes of a log, of which the end is kept, and maxLines the lines
	// that the kubelet returns.
	maxLog   = 2 << 20
	maxLines = 50_000
	// maxMetrics limits the bytes of a pod's metrics.
	maxMetrics = 4 << 20
	// maxPods limits the pods with logs. Pods that are not ready come first.
	maxPods = 50
	// podTimeout limits the time to read a log, or the metrics of a pod.
	podTimeout = 30 * time.Second
)

// logs adds the logs and metrics of nadra's own pods.
func (r *collector) logs(ctx context.Context) error {
	pods := slices.Clone(r.pods)
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return readiness(&a) - readiness(&b) })
	if len(pods) > maxPods {
		r.out.addGap(fmt.Sprintf("logs and metrics of %d pods of nadra", len(pods)-maxPods), "more pods than fit into the archive", "--node, to select others")
		pods = pods[:maxPods]
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

// readiness returns 1 for pods that are ready, which come last, and 0 for others.
func readiness(p *corev1.Pod) int {
	if podutils.IsPodReady(p) {
		return 1
	}
	return 0
}

// podLogs adds the logs of a pod's containers.
func (r *collector) podLogs(ctx context.Context, p *corev1.Pod) {
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		base := "logs/" + p.Namespace + "/" + p.Name + "/" + s.Name
		r.log(ctx, p, base+".log", &corev1.PodLogOptions{
			Container: s.Name, TailLines: ptr.To[int64](maxLines), SinceSeconds: ptr.To(max(int64(r.Since.Seconds()), 1)),
		})
		if s.RestartCount > 0 { // the cause of its end may be older than Since
			r.log(ctx, p, base+".previous.log", &corev1.PodLogOptions{Container: s.Name, Previous: true, TailLines: ptr.To[int64](maxLines)})
		}
	}
}

// log adds a log.
func (r *collector) log(ctx context.Context, p *corev1.Pod, name string, o *corev1.PodLogOptions) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	text, cut, err := func() (string, string, error) {
		stream, err := r.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).Stream(ctx)
		if err != nil {
			return "", "", err
		}
		text, cut, err := tail(stream, maxLog)
		return text, cut, errors.Join(err, stream.Close())
	}()
	if r.failed(name, err, "the right to get pods/log in namespace "+p.Namespace) && text == "" {
		return
	}
	r.out.addLog(name, "log of container "+o.Container+" on node "+p.Spec.NodeName, text, cut)
}

// tail reads everything, and keeps the last lines that fit into limit.
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
		if line := slices.Index(kept, '\n'); line >= 0 { // the beginning of the first line is gone
			dropped += line + 1
			kept = kept[line+1:]
		}
		cut = fmt.Sprintf("the first %d bytes are left out", dropped)
	}
	return string(kept), cut, err
}

// metrics adds the metrics of a pod.
func (r *collector) metrics(ctx context.Context, p *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	text, err := r.Raw(ctx, "/api/v1/namespaces/"+url.PathEscape(p.Namespace)+"/pods/"+url.PathEscape(p.Name)+":"+metricsPort(p)+"/proxy/metrics")
	if r.failed("metrics of pod "+p.Namespace+"/"+p.Name, err, "the right to get pods/proxy in namespace "+p.Namespace+", and that the API server reaches the pod") {
		return
	}
	cut := ""
	if over := len(text) - maxMetrics; over > 0 {
		text, cut = text[:maxMetrics], fmt.Sprintf("the last %d bytes are left out", over)
	}
	r.out.addMetrics("metrics/"+p.Namespace+"/"+p.Name+".prom", "metrics, from node "+p.Spec.NodeName, string(text), cut)
}

// httpAddress begins the argument with the address of a driver's metrics.
const httpAddress = "--http-address="

// metricsPort returns the port of the pod's metrics, by its name or by the driver's arguments.
// v0.1.0-rc.1 and earlier drivers name it.
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
	for _, c := range p.Spec.Containers {
		for _, arg := range c.Args {
			if address, found := strings.CutPrefix(arg, httpAddress); found {
				if _, port, err := net.SplitHostPort(address); err == nil {
					return port
				}
			}
		}
	}
	return "9078"
}
