//go:build e2e

package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
)

// ending is how a pod is deleted.
type ending int

const (
	graceful  ending = iota
	forced           // grace 0: the API forgets it before the node has
	recreated        // graceful, and then again under the same name at once
	replaced         // forced, and then again under the same name at once
)

// life is one pod, from creation to deletion.
type life struct {
	// name ends in the number of interfaces that the pod wants, for the checker: a
	// container's configuration has nothing else about its pod.
	name string
	// claims has the names of the claims' templates.
	claims []string
	// init adds an init container, second a container that references the
	// claims, unreferenced one, the first to start, that does not: such a pod is
	// refused by Prepare, and never starts.
	init, second, unreferenced bool
	// never is restartPolicy Never.
	never bool
	// named has the pod refer to claims by name, which it leaves to the pod that is created again.
	named bool
	// debugged adds an ephemeral container to the pod when it is Ready.
	debugged bool
	grace    int64
	// early ends the pod after linger, ready or not; otherwise linger begins
	// when it is Ready.
	early  bool
	linger time.Duration
	end    ending
	// stays keeps the pod, or the one that is created again, to the end of the run.
	stays bool
}

// templates are the claims that pods can have: up to three networks in any
// order. The name lists them.
var templates = []string{"b", "m", "c", "b-m", "m-c", "c-b", "b-m-c", "c-m-b"}

// drawLife draws the life with a number.
func drawLife(r *rand.Rand, number, pods int) life {
	l := life{
		claims:       []string{templates[r.IntN(len(templates))]},
		init:         r.IntN(6) == 0,
		second:       r.IntN(6) == 0,
		unreferenced: r.IntN(10) == 0,
		never:        r.IntN(8) == 0,
		named:        r.IntN(4) == 0,
		debugged:     r.IntN(6) == 0,
		grace:        1 + r.Int64N(2),
		early:        r.IntN(5) == 0,
		linger:       between(r, 200*time.Millisecond, 4*time.Second),
		end:          []ending{graceful, graceful, graceful, forced, recreated, replaced}[r.IntN(6)],
		stays:        r.IntN(max(10, pods/25)) == 0,
	}
	if l.named && l.pods() == 2 && r.IntN(2) == 0 {
		l.stays = true // so that the end of the run finds a claim that has not moved
	}
	if l.unreferenced {
		l.early, l.stays = true, false
	}
	if len(l.networks()) < 3 && r.IntN(3) == 0 {
		l.claims = append(l.claims, templates[r.IntN(3)])
	}
	l.name = fmt.Sprintf("life-%04d-%d", number, len(l.networks()))
	return l
}

// pods returns how many pods a life creates.
func (l life) pods() int {
	if l.end == recreated || l.end == replaced {
		return 2
	}
	return 1
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// networks returns the networks of net1, net2, … in order.
func (l life) networks() []string { return strings.Split(strings.Join(l.claims, "-"), "-") }

// wanted returns how many interfaces a pod of the suite requests, by its name.
func wanted(pod string) int {
	n, _ := strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])
	return n
}

// stayLabel marks pods that stay to the end of the run.
const stayLabel = "faults.nadra.dev/stays"

// pod makes the pod of a life.
func (l life) pod(namespace string) *corev1.Pod {
	p := lab.Pod(namespace, l.name, l.claims[0])
	p.Labels = map[string]string{}
	if l.stays {
		p.Labels[stayLabel] = "true"
	}
	p.Spec.TerminationGracePeriodSeconds = &l.grace
	if l.never {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	claims := []corev1.ResourceClaim{{Name: p.Spec.ResourceClaims[0].Name}}
	for i, template := range l.claims[1:] {
		name := fmt.Sprintf("more-%d", i)
		claims = append(claims, corev1.ResourceClaim{Name: name})
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To(template)})
	}
	if l.named {
		for i, claim := range l.namedClaims(namespace) {
			p.Spec.ResourceClaims[i].ResourceClaimTemplateName, p.Spec.ResourceClaims[i].ResourceClaimName = nil, ptr.To(claim.Name)
		}
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "reports", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: suiteDir},
	}}}
	p.Spec.Containers = nil
	if l.unreferenced {
		p.Spec.Containers = append(p.Spec.Containers, l.container("unreferenced", stay, nil))
	}
	p.Spec.Containers = append(p.Spec.Containers, l.container("main", stay, claims))
	if l.second {
		p.Spec.Containers = append(p.Spec.Containers, l.container("second", stay, claims[:1]))
	}
	if l.init {
		p.Spec.InitContainers = []corev1.Container{l.container("init", "exit 0", claims)}
	}
	return p
}

// namedClaims makes the claims that the pod refers to by name.
func (l life) namedClaims(namespace string) (claims []*resourceapi.ResourceClaim) {
	if !l.named {
		return nil
	}
	for i, name := range l.claims {
		claims = append(claims, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", l.name, i)},
			Spec:       template(namespace, name).Spec.Spec,
		})
	}
	return claims
}

// stay is what a container does once it has its interfaces: sleep, but heed
// SIGTERM, which busybox' sleep ignores as PID 1.
const stay = "trap 'exit 0' TERM; sleep infinity & wait"

// reports is the file in which containers report interfaces that they lack.
const reports = "missing"

// container makes a container that looks for its interfaces before anything
// else, and reports to the node when one is missing, with the time, what there is and its own ID.
func (l life) container(name, then string, claims []corev1.ResourceClaim) corev1.Container {
	script := fmt.Sprintf(`i=1; while [ $i -le %d ]; do [ -e /sys/class/net/net$i ] || { echo "%s %s net$i $(date +%%T) $(ls /sys/class/net | tr '\n' ,) $(grep -om1 '[0-9a-f]\{64\}' /proc/self/cgroup)" >>/reports/%s; exit 42; }; i=$((i+1)); done; %s`,
		len(l.networks()), l.name, name, reports, then)
	return corev1.Container{
		Name: name, Image: "localhost/test:1", ImagePullPolicy: corev1.PullNever,
		Command:      []string{"/bin/sh", "-c", script},
		Resources:    corev1.ResourceRequirements{Claims: claims},
		VolumeMounts: []corev1.VolumeMount{{Name: "reports", MountPath: "/reports"}},
	}
}
