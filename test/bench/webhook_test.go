package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	webhookNADs = 10_000
	// webhookPods are created in a minute, each with a plain one beside it.
	webhookPods = 1_000
	// webhookNeeds is the number of different sets of networks that they request.
	webhookNeeds = 50
	// webhookGoal is the goal for the 99th percentile, in milliseconds.
	webhookGoal = 20
)

// webhookFigures has the figures of admission with many networks.
type webhookFigures struct {
	NADs, Pods, Needs int
	// Classes is how long the DeviceClasses took from the first NAD to the last
	// class, in seconds; NADsTook that part of it in which NADs were created.
	Classes, NADsTook float64
	// Plain and Converted are the durations of create requests as a client sees them.
	Plain, Converted stats.Sample
	// Within is the bound, in milliseconds, of the webhook's own histogram that 99 of 100
	// answers did not exceed.
	Within float64
	// RSS is the controller's, in MiB.
	RSS float64
}

// Goal reports whether the webhook meets its goal.
func (w *webhookFigures) Goal() string {
	if w.Within <= webhookGoal {
		return "met"
	}
	return "missed"
}

// BenchmarkWebhook admits pods on a cluster with many networks. It comes last, because the
// networks stay.
func BenchmarkWebhook(b *testing.B) {
	figures.begin(b, "webhook")
	l := startLab(b)
	must(b, l.InstallController(b.Context()))
	f := &webhookFigures{NADs: webhookNADs, Pods: webhookPods, Needs: webhookNeeds}
	must(b, l.CreateNamespace(b.Context(), "admitted"))
	_, err := l.Cluster.Kubectl(b.Context(), "label", "namespace", "admitted", "nadra.dev/owner=nadra")
	must(b, err)
	makeNetworks(b, l, f)
	admit(b, l, f)
	f.Within = answers(b, l)
	f.RSS = findProcess(b, l.Cluster.Node(1).Machine, "nadra-controller").status(b, "VmRSS")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(f.Classes, "s-classes")
	b.ReportMetric(f.Plain.Median(), "ms-plain-p50")
	b.ReportMetric(f.Plain.Percentile(99), "ms-plain-p99")
	b.ReportMetric(f.Converted.Median(), "ms-converted-p50")
	b.ReportMetric(f.Converted.Percentile(99), "ms-converted-p99")
	b.ReportMetric(f.Within, "ms-webhook-p99")
	b.ReportMetric(f.RSS, "MiB-controller")
	figures.Webhook = f
}

// makeNetworks creates NADs that no node publishes, and waits for their classes.
func makeNetworks(b *testing.B, l *lab.Lab, f *webhookFigures) {
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(32)
	for i := range webhookNADs {
		group.Go(func() error {
			return l.CreateNAD(b.Context(), "admitted", manyNo(i), `{"cniVersion": "1.0.0", "type": "macvlan", "master": "absent0"}`)
		})
	}
	must(b, group.Wait())
	f.NADsTook = time.Since(start).Seconds()
	must(b, lab.Eventually(b.Context(), 10*time.Minute, func(ctx context.Context) error {
		// The API server counts the remaining objects only without a selector.
		list, err := l.Kube.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		n := len(list.Items)
		if list.RemainingItemCount != nil {
			n += int(*list.RemainingItemCount)
		}
		if n < webhookNADs {
			return fmt.Errorf("there are %d classes", n)
		}
		return nil
	}))
	f.Classes = time.Since(start).Seconds()
}

func manyNo(i int) string { return fmt.Sprintf("net-%05d", i) }

// admit creates pods at an even pace, a plain one before each that names networks. No pod
// is ever scheduled.
func admit(b *testing.B, l *lab.Lab, f *webhookFigures) {
	tick := time.NewTicker(time.Minute / webhookPods)
	defer tick.Stop()
	for i := range webhookPods {
		<-tick.C
		f.Plain.Add(createGated(b, l, fmt.Sprintf("plain-%04d", i), ""))
		need := i % webhookNeeds * (webhookNADs / webhookNeeds)
		f.Converted.Add(createGated(b, l, fmt.Sprintf("asks-%04d", i),
			manyNo(need)+","+manyNo(need+1)+","+manyNo(need+2)))
	}
	templates, err := l.Kube.ResourceV1().ResourceClaimTemplates("admitted").List(b.Context(), metav1.ListOptions{})
	must(b, err)
	if len(templates.Items) != webhookNeeds {
		b.Fatalf("%d templates were made for %d sets of networks", len(templates.Items), webhookNeeds)
	}
}

func createGated(b *testing.B, l *lab.Lab, name, networks string) time.Duration {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, // whose plain pods no webhook sees
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "nadra.dev/never"}},
			Containers:      []corev1.Container{{Name: "main", Image: "localhost/none"}},
		},
	}
	if networks != "" {
		pod.Namespace = "admitted"
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
	}
	start := time.Now()
	made, err := l.Kube.CoreV1().Pods(pod.Namespace).Create(b.Context(), pod, metav1.CreateOptions{})
	took := time.Since(start)
	must(b, err)
	if converted := len(made.Spec.ResourceClaims) > 0; converted != (networks != "") {
		b.Fatalf("pod %s: converted is %v", name, converted)
	}
	return took
}

var bucket = regexp.MustCompile(`(?m)^nadra_webhook_duration_seconds_bucket\{webhook="mutate-pods",le="([^"]+)"\} (\d+)$`)

// answers returns the bound of the webhook's histogram, over all replicas, that 99 of 100
// answers did not exceed.
func answers(b *testing.B, l *lab.Lab) float64 {
	pods, err := l.Kube.CoreV1().Pods(lab.ControllerNamespace).List(b.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nadra-controller"})
	must(b, err)
	counts := histogram{}
	for _, pod := range pods.Items {
		text, err := l.Cluster.Kubectl(b.Context(), "get", "--raw",
			fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080/proxy/metrics", lab.ControllerNamespace, pod.Name))
		must(b, err)
		for _, m := range bucket.FindAllStringSubmatch(text, -1) {
			bound, err1 := strconv.ParseFloat(m[1], 64)
			n, err2 := strconv.ParseFloat(m[2], 64)
			must(b, errors.Join(err1, err2))
			counts[bound] += n
		}
	}
	if counts.all() < webhookPods {
		b.Fatalf("the webhook has counted %v answers", counts.all())
	}
	return counts.bound(0.99) * 1000
}
