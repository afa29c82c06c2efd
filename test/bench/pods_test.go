package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// podRounds is how often each kind of pod is started, after some rounds for warming up.
	podRounds = 12
	podWarmUp = 2
	// podTime limits one pod, so that a hanging run ends.
	podTime = 3 * time.Minute
)

// podFigures has the figures of one kind of pod.
type podFigures struct {
	Kind  string
	Ready stats.Sample // from create to Ready
	// Hook is the attaching part of it, by the driver's log.
	Hook stats.Sample
}

// podKind is a pod with a number of networks on a node. It requests them by a claim on
// nadra's node, by Multus' annotation on Multus' nodes, and has as many devices of the bare
// driver on that one's node.
type podKind struct {
	name, title string
	node        int
	networks    int
}

// floor is the kind that shows what claims and plugins cost without anything else: containers do not wait for the
// plugins, and nobody writes network-status.
const floor = "floorthree"

var podKinds = []podKind{
	{"plain", "no networks, nadra's node", nadraNode, 0},
	{"one", "nadra, 1 network", nadraNode, 1},
	{"three", "nadra, 3 networks", nadraNode, 3},
	{"thickplain", "no networks, thick Multus' node", thickNode, 0},
	{"thickone", "thick Multus, 1 network", thickNode, 1},
	{"thickthree", "thick Multus, 3 networks", thickNode, 3},
	{"thinthree", "thin Multus, 3 networks", thinNode, 3},
	{"bareplain", "no networks, a bare DRA driver's node", bareNode, 0},
	{"barethree", "a bare DRA driver, 3 devices", bareNode, 3},
	{floor, "a bare DRA driver that runs the plugins, 3 networks", bareNode, 3},
}

// BenchmarkPods starts pods one after another, the kinds in turn, and each round with
// another kind first. It takes the requests for each pod from the API server's audit log.
func BenchmarkPods(b *testing.B) {
	figures.begin(b, "pods")
	s := newStarter(b, threeNodes(b), "pods")
	ready := make([]stats.Sample, len(podKinds))
	var lives []podLife
	for round := range podWarmUp + podRounds {
		for i := range podKinds {
			kind := (round + i) % len(podKinds)
			life := s.lead(b, podKinds[kind], round)
			if round >= podWarmUp {
				ready[kind].Add(life.ready.Sub(life.created))
				lives = append(lives, life)
			}
		}
	}
	hooks := s.hookTimes(b)
	b.ReportMetric(0, "ns/op")
	for i, kind := range podKinds {
		figures.Pods = append(figures.Pods, podFigures{kind.title, ready[i], hooks[kind.name]})
		b.ReportMetric(ready[i].Median(), "ms-"+kind.name+"-p50")
		b.ReportMetric(ready[i].Percentile(90), "ms-"+kind.name+"-p90")
	}
	figures.Requests = s.requests(b, lives)
	for _, r := range figures.Requests {
		b.ReportMetric(r.OwnReady.Median(), "own-requests-"+r.kind.name)
		b.Logf("%s: own requests %q, on the way from Prepare %v", r.Kind, r.What, r.Path)
	}
}

// starter starts pods in one namespace and watches them.
type starter struct {
	*trio
	namespace string
	events    <-chan watch.Event
}

// starterNetworks is the most networks of a pod; networkNo names them.
const starterNetworks = 3

// claimTemplate returns the name of the template with that many networks.
func claimTemplate(networks int) string { return fmt.Sprintf("networks-%d", networks) }

// starterPlugin returns the keys of the configuration of a network's plugin.
func starterPlugin(i int) string {
	return fmt.Sprintf(`"type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.%d.0.0/16"}`, 110+i)
}

func newStarter(b *testing.B, t *trio, namespace string) *starter {
	b.Helper()
	must(b, t.CreateNamespace(b.Context(), namespace))
	var selections []attachment.Selection
	for i := range starterNetworks {
		config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"%s-%d",%s}`, namespace, i, starterPlugin(i))
		must(b, t.CreateNAD(b.Context(), namespace, networkNo(i), config))
		must(b, t.Published(b.Context(), namespace+"/"+networkNo(i)))
		network := attachment.NetworkRef{Namespace: namespace, Name: networkNo(i)}
		class := translate.DeviceClass(network, "")
		_, err := t.Kube.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{})
		must(b, err)
		b.Cleanup(func() {
			must(b, t.Kube.ResourceV1().DeviceClasses().Delete(context.WithoutCancel(b.Context()), class.Name, metav1.DeleteOptions{}))
		})
		selections = append(selections, attachment.Selection{Network: network})
		ours, err := attachment.ClaimSpec(selections)
		must(b, err)
		for name, spec := range map[string]resourceapi.ResourceClaimSpec{
			claimTemplate(len(selections)): ours, bareTemplateName(len(selections)): bareClaim(len(selections)),
		} {
			must(b, t.CreateTemplate(b.Context(), &resourceapi.ResourceClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
			}))
		}
	}
	w := watchPods(b, t.Kube, namespace)
	b.Cleanup(func() {
		w.Stop()
		_, err := t.Cluster.Kubectl(context.WithoutCancel(b.Context()), "delete", "namespace", namespace, "--timeout=180s")
		must(b, err)
	})
	return &starter{t, namespace, buffered(w.ResultChan())}
}

// watchPods watches a namespace without pods. It continues a watch that the server ends.
func watchPods(b *testing.B, kube kubernetes.Interface, namespace string) watch.Interface {
	b.Helper()
	pods := kube.CoreV1().Pods(namespace)
	list, err := pods.List(b.Context(), metav1.ListOptions{})
	must(b, err)
	w, err := watchtools.NewRetryWatcherWithContext(b.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
	})
	must(b, err)
	return w
}

// buffered passes events on through a large buffer, because the server ends the watches of
// slow readers, and nobody reads while a hundred pods are created.
func buffered(from <-chan watch.Event) <-chan watch.Event {
	to := make(chan watch.Event, 1<<14)
	go func() {
		defer close(to)
		for e := range from {
			to <- e
		}
	}()
	return to
}

// pod makes a pod of a kind.
func (s *starter) pod(kind podKind, name string) *corev1.Pod {
	var names []string
	for i := range kind.networks {
		names = append(names, networkNo(i))
	}
	template := claimTemplate(kind.networks)
	if kind.node == bareNode {
		template = bareTemplateName(kind.networks)
	}
	pod := s.podWith(kind.node, name, template, names)
	if kind.name == floor {
		pod.Annotations = map[string]string{"otherdriver/attach": strings.Join(names, ",")}
	}
	return pod
}

// podWith makes a pod with networks on a node. It requests them by a claim from the
// template on nadra's node and the bare driver's, and by the annotation on Multus' nodes.
func (s *starter) podWith(node int, name, template string, networks []string) *corev1.Pod {
	pod := lab.Pod(s.namespace, name, template)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.Cluster.Node(node).Name()}
	if (node == nadraNode || node == bareNode) && len(networks) > 0 {
		return pod
	}
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	if len(networks) > 0 {
		pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: strings.Join(networks, ",")}
	}
	return pod
}

// podLife has when a pod was created, was seen to be Ready, and was gone.
type podLife struct {
	kind                 podKind
	name                 string
	created, ready, gone time.Time
}

// lead creates a pod, waits until it is Ready and deletes it.
func (s *starter) lead(b *testing.B, kind podKind, round int) podLife {
	life := podLife{kind: kind, name: fmt.Sprintf("%s-%02d", kind.name, round), created: time.Now()}
	_, err := s.CreatePod(b.Context(), s.pod(kind, life.name))
	must(b, err)
	must(b, s.await(b.Context(), life.name, isReady))
	life.ready = time.Now()
	s.check(b, kind, life.name)
	must(b, s.Kube.CoreV1().Pods(s.namespace).Delete(b.Context(), life.name, metav1.DeleteOptions{}))
	must(b, s.await(b.Context(), life.name, func(e watch.Event) bool { return e.Type == watch.Deleted }))
	life.gone = time.Now()
	return life
}

// check fails the benchmark unless the pod has the networks that are measured.
func (s *starter) check(b *testing.B, kind podKind, name string) {
	if kind.networks == 0 || kind.node == bareNode {
		return
	}
	statuses, err := s.NetworkStatus(b.Context(), s.namespace, name)
	must(b, err)
	if want := kind.networks + 1; len(statuses) != want { // and the cluster's own
		b.Fatalf("pod %s has %d networks, want %d", name, len(statuses), want)
	}
}

// await waits for the pod's first event that satisfies ok.
func (s *starter) await(ctx context.Context, name string, ok func(watch.Event) bool) error {
	ctx, cancel := context.WithTimeout(ctx, podTime)
	defer cancel()
	for {
		select {
		case e, open := <-s.events:
			if !open {
				return errors.New("watching pods: the server closed the watch")
			}
			if pod, isPod := e.Object.(*corev1.Pod); isPod && pod.Name == name && ok(e) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for pod %s: %w; events: %s", name, ctx.Err(),
				strings.Join(s.Events(context.WithoutCancel(ctx), "pods", name), "; "))
		}
	}
}

func isReady(e watch.Event) bool {
	for _, c := range e.Object.(*corev1.Pod).Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// hookTimes reads the durations of the driver's hook from its log, by kind.
func (s *starter) hookTimes(b *testing.B) map[string]stats.Sample {
	out := map[string]stats.Sample{}
	for pod, h := range s.attached(b) {
		kind, round, _ := strings.Cut(pod, "-")
		if n, err := strconv.Atoi(round); err == nil && n >= podWarmUp {
			sample := out[kind]
			sample.Add(h.took)
			out[kind] = sample
		}
	}
	for _, kind := range podKinds {
		if n := len(out[kind.name]); kind.node == nadraNode && kind.networks > 0 && n != podRounds {
			b.Fatalf("the driver's log has %d pods of kind %s, want %d", n, kind.name, podRounds)
		}
	}
	return out
}

// hook is the attaching of a pod as the driver logs it.
type hook struct {
	end  time.Time
	took time.Duration
}

// attachedLine finds the driver's log entry of an attached pod: its time in UTC, the pod, and
// how long it took. No other entry has the key took.
var attachedLine = regexp.MustCompile(`(?m)^I(\d{4} [0-9:.]+) .* pod="([^"/]+)/([^"]+)".* duration="([^"]+)"`)

// attached returns the attachings of the namespace's pods, by pod.
func (s *starter) attached(b *testing.B) map[string]hook {
	log, err := s.Cluster.Kubectl(b.Context(), "-n", "nadra", "logs", "-l", "app.kubernetes.io/name=nadra-node", "--tail=-1")
	must(b, err)
	out := map[string]hook{}
	for _, match := range attachedLine.FindAllStringSubmatch(log, -1) {
		if match[2] != s.namespace {
			continue
		}
		end, err := time.Parse("20060102 15:04:05.000000", time.Now().UTC().Format("2006")+match[1])
		must(b, err)
		took, err := time.ParseDuration(match[4])
		must(b, err)
		out[match[3]] = hook{end, took}
	}
	return out
}
