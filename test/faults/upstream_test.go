//go:build e2e

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// upstream counts faults of Kubernetes, the runtimes and host-local, which the suite
// recognises by their signs. They are not nadra's, and do not fail a test.
type upstream struct {
	// lostClaims counts claims that Kubernetes removed from a pod's status.
	lostClaims atomic.Int64
	// lostReservations counts pods from which Kubernetes took the reservation of a claim.
	lostReservations int
	// lostPods counts pods that the API server has deleted although nobody asked for it.
	lostPods int
	// forgotten has network namespaces that a killed runtime forgot, and the host's ends of their eth0, as the
	// last search for leftovers found them.
	forgotten []string
	// lostContainers counts containers of pods that are never restarted, whose start a
	// containerd that was stopped had cancelled.
	lostContainers int
	// lostSpecifications counts sandboxes whose specification a killed containerd lost.
	lostSpecifications int
	// neverStarted counts pods that are never restarted, and that the kubelet leaves with a
	// created container in a sandbox that has ended.
	neverStarted int
	// hidden counts pods with a container that CRI-O runs and does not list.
	hidden int
	// unasked counts ephemeral containers that the runtime has created while no driver was connected to it.
	unasked int
	// missedEnds counts containers whose end CRI-O has missed.
	missedEnds atomic.Int64
	// tornLinks has links in pods that a killed plugin had not renamed yet.
	tornLinks map[string]bool
	// torn has addresses that a killed host-local reserved for nobody, likewise.
	torn []string
}

func (u *upstream) String() string {
	return fmt.Sprintf("upstream: kubernetes-lost-claims=%d kubernetes-lost-reservations=%d kubernetes-lost-pods=%d kubelet-never-started=%d containerd-lost-containers=%d containerd-lost-specifications=%d ephemeral-unasked=%d forgotten-namespaces=%d crio-missed-ends=%d crio-hidden=%d torn-links=%d host-local-torn-leases=%d",
		u.lostClaims.Load(), u.lostReservations, u.lostPods, u.neverStarted, u.lostContainers, u.lostSpecifications, u.unasked, len(u.forgotten), u.missedEnds.Load(), u.hidden, len(u.tornLinks), len(u.torn))
}

// startCancelled is the end of containerd's message about a container that it was
// starting when it was stopped.
const startCancelled = "failed to create shim task: context canceled"

// lostContainer reports whether containerd was stopped while it started a container of a
// pod that is never restarted. The kubelet gives the container up, so the pod runs
// without it and is never Ready. Any other reason for a container that does not start
// remains a failure of the test.
func lostContainer(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyNever && slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		end := c.State.Terminated
		return end != nil && end.Reason == "StartError" && strings.HasSuffix(end.Message, startCancelled)
	})
}

func TestLostContainer(t *testing.T) {
	pod := func(policy corev1.RestartPolicy, ended, message string) *corev1.Pod {
		return &corev1.Pod{
			Spec: corev1.PodSpec{RestartPolicy: policy},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: ended, Message: message}}},
			}},
		}
	}
	const message = "failed to create containerd task: " + startCancelled
	if !lostContainer(pod(corev1.RestartPolicyNever, "StartError", message)) {
		t.Error("containerd's sign is not recognised")
	}
	for _, p := range []*corev1.Pod{
		pod(corev1.RestartPolicyAlways, "StartError", message), // the kubelet starts it again
		pod(corev1.RestartPolicyNever, "Error", message),
		pod(corev1.RestartPolicyNever, "StartError", "failed to create shim task: nadra-gate: no such file"),
	} {
		if lostContainer(p) {
			t.Errorf("taken for containerd's: %s", state(p))
		}
	}
}

func TestGateEnded(t *testing.T) {
	const refusal = "error during container init: error running createRuntime hook #0: exit status 1, stdout: , stderr: nadra: pod faults/a: network faults/b (net1), phase Attaching: [PluginFailed] …"
	for _, tt := range []struct {
		policy         corev1.RestartPolicy
		ended, message string
		want           bool
	}{
		{corev1.RestartPolicyNever, "StartError", refusal, true},
		{corev1.RestartPolicyAlways, "StartError", refusal, false}, // the kubelet starts it again
		{corev1.RestartPolicyNever, "Error", refusal, false},
		{corev1.RestartPolicyNever, "StartError", "exec: /bin/sh: no such file", false},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tt.policy}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: tt.ended, Message: tt.message}}},
		}}}
		if got := gateEnded(p); got != tt.want {
			t.Errorf("%s, %s %q: %t, want %t", tt.policy, tt.ended, tt.message, got, tt.want)
		}
	}
}

// noNamespaces finds the sandbox in the driver's refusal of one whose specification is lost.
var noNamespaces = regexp.MustCompile(`(?s)` + regexp.QuoteMeta(lab.Code(reason.SandboxUnspecified)) + `.*? sandbox ([0-9a-f]{12})\b`)

// lostSpecification reports whether containerd, by its own log, has lost the specification
// of the sandbox that a pod waits in: it starts a sandbox, and stores the specification
// afterwards (RunPodSandbox, 2.4). Killed between the two, it keeps the sandbox, but
// reports no namespaces for it.
func lostSpecification(p *corev1.Pod, containerd string) bool {
	sandbox := noNamespaces.FindStringSubmatch(state(p))
	return sandbox != nil && strings.Contains(containerd, "failed to unmarshal sandbox spec for pod "+sandbox[1])
}

func TestLostSpecification(t *testing.T) {
	waiting := func(message string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: message}}},
		}}}
	}
	printed := reason.SandboxUnspecified.Text("adding network faults/a as net1: the container runtime names no namespaces for sandbox 61e62ac54d0c of pod faults/a")
	const log = `level=error msg="failed to unmarshal sandbox spec for pod 61e62ac54d0c1a28d7ce" error="type with url : not found"`
	if !lostSpecification(waiting(printed), log) {
		t.Error("containerd's sign is not recognised")
	}
	for what, taken := range map[string]bool{
		"containerd does not say so": lostSpecification(waiting(printed), ""),
		"of another sandbox":         lostSpecification(waiting(strings.Replace(printed, "61e6", "0000", 1)), log),
		"of another refusal":         lostSpecification(waiting(strings.Replace(printed, string(reason.SandboxUnspecified), string(reason.HostNetwork), 1)), log),
		"of a pod that is gone":      lostSpecification(nil, log),
	} {
		if taken {
			t.Errorf("taken for containerd's: %s", what)
		}
	}
}

// neverStarted reports whether the kubelet leaves a pod that is never restarted with a
// container that was created and not started before its sandbox ended, in a reboot. The
// kubelet makes no second sandbox for such a pod once it has a container (computePodActions,
// 1.37): it stops the old sandbox every few seconds, and containerd's log says that the
// container has never run.
func neverStarted(p *corev1.Pod, containerd string) bool {
	if p == nil || p.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return false
	}
	return slices.ContainsFunc(containersOf(p), func(c corev1.ContainerStatus) bool {
		id, found := strings.CutPrefix(c.ContainerID, "containerd://")
		return found && c.State.Waiting != nil && c.State.Waiting.Reason == "" &&
			strings.Contains(containerd, id+`\" must be in running or unknown state, current state \"CONTAINER_CREATED`)
	})
}

func TestNeverStarted(t *testing.T) {
	pod := func(policy corev1.RestartPolicy, id, waits string) *corev1.Pod {
		return &corev1.Pod{
			Spec: corev1.PodSpec{RestartPolicy: policy},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{ContainerID: id, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits}}},
			}},
		}
	}
	const log = `level=info msg="Container to stop \"c846ee2fc0dd\" must be in running or unknown state, current state \"CONTAINER_CREATED\""`
	left := pod(corev1.RestartPolicyNever, "containerd://c846ee2fc0dd", "")
	if !neverStarted(left, log) {
		t.Error("the kubelet's sign is not recognised")
	}
	left.Status.InitContainerStatuses, left.Status.ContainerStatuses = left.Status.ContainerStatuses, nil
	if !neverStarted(left, log) {
		t.Error("the kubelet's sign is not recognised if it is an init container's")
	}
	for what, taken := range map[string]bool{
		"the kubelet restarts the pod": neverStarted(pod(corev1.RestartPolicyAlways, "containerd://c846ee2fc0dd", ""), log),
		"the pod waits at the gate":    neverStarted(pod(corev1.RestartPolicyNever, "containerd://c846ee2fc0dd", ""), ""),
		"of another container":         neverStarted(pod(corev1.RestartPolicyNever, "containerd://000000000000", ""), log),
		"the kubelet reports an error": neverStarted(pod(corev1.RestartPolicyNever, "containerd://c846ee2fc0dd", "CreateContainerError"), log),
		"the pod has no container":     neverStarted(pod(corev1.RestartPolicyNever, "", ""), log),
		"the pod is gone":              neverStarted(nil, log),
	} {
		if taken {
			t.Errorf("taken for the kubelet's: %s", what)
		}
	}
}

// isRunning is the end of CRI-O's message to a kubelet that starts a container which runs.
const isRunning = "is not in created state: running"

// hidden reports whether a container of a pod runs that CRI-O does not list: it was created while CRI-O was being
// restarted, also in peace (1.36). The kubelet creates it again and again, gets the one that is there, and cannot start it.
func hidden(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(containersOf(p), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.State.Waiting.Reason == "RunContainerError" && strings.HasSuffix(c.State.Waiting.Message, isRunning)
	})
}

func TestHidden(t *testing.T) {
	waiting := func(because, message string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: because, Message: message}}},
		}}}
	}
	if !hidden(waiting("RunContainerError", "container 268a6fe03b75 "+isRunning)) {
		t.Error("CRI-O's sign is not recognised")
	}
	for what, p := range map[string]*corev1.Pod{
		"the gate refuses it":    waiting("RunContainerError", "error running createRuntime hook #0: exit status 1"),
		"nadra refuses it":       waiting("CreateContainerError", "pod faults/a is not attached to network faults/b (net1)"),
		"it is not running":      waiting("RunContainerError", "container 268a6fe03b75 is not in created state: stopped"),
		"the pod is gone":        nil,
		"the pod has no message": {},
	} {
		if hidden(p) {
			t.Errorf("taken for CRI-O's: %s", what)
		}
	}
}

// endUpstream deletes a pod that cannot run any more by a fault of Kubernetes or of
// the runtime, and counts it, as it counts one that the API server has lost. It reports whether the pod was one.
func (s *suite) endUpstream(ctx context.Context, name string) (bool, error) {
	requests, err := os.ReadFile(auditLog())
	if err != nil {
		return false, err
	}
	p := s.pod(name)
	switch {
	case p == nil && lastCreated(string(requests), name):
		s.note("the API server has deleted pod %s, which nobody asked for", name)
		s.upstream.lostPods++
		return true, nil
	case lostReservation(p, string(requests)):
		s.note("Kubernetes has taken the reservation of a claim from pod %s; the pod is deleted", name)
		s.upstream.lostReservations++
		return true, s.Kube.CoreV1().Pods(s.ns).Delete(ctx, name, metav1.DeleteOptions{})
	}
	if !hidden(p) && !s.runtimeKilled.Load() {
		return false, nil
	}
	log, err := s.runtimeLog()
	if err != nil {
		return false, err
	}
	switch {
	case hidden(p):
		s.note("CRI-O does not list a container of pod %s that runs; the pod is deleted", name)
		s.upstream.hidden++
	case lostSpecification(p, log):
		s.note("containerd has lost the specification of the sandbox of pod %s; the pod is deleted", name)
		s.upstream.lostSpecifications++
	case neverStarted(p, log):
		s.note("the kubelet leaves pod %s with a container that was never started; the pod is deleted", name)
		s.upstream.neverStarted++
	default:
		return false, nil
	}
	return true, s.Kube.CoreV1().Pods(s.ns).Delete(ctx, name, metav1.DeleteOptions{})
}

// temporary is the name that macvlan gives a link before it renames it (plugins 1.9, ip.RandomVethName).
var temporary = regexp.MustCompile(`^veth[0-9a-f]{8}$`)

// tornLink reports whether a link in a pod is one that a killed plugin had not renamed yet, and remembers it. No DEL knows
// its name, so it stays until the pod's network namespace goes.
func (s *suite) tornLink(ctx context.Context, pod, link string) bool {
	killed := func(event string) bool { return strings.Contains(event, "signal: killed") }
	if !temporary.MatchString(link) || !slices.ContainsFunc(s.Events(ctx, s.ns, pod), killed) {
		return false
	}
	if s.upstream.tornLinks == nil {
		s.upstream.tornLinks = map[string]bool{}
	}
	s.upstream.tornLinks[link] = true
	return true
}

// request is a successful request in the audit log.
type request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Name string }
	// RequestObject is what a write of a claim has.
	RequestObject struct {
		Status struct {
			ReservedFor []resourceapi.ResourceClaimConsumerReference
		}
	}
	ResponseStatus struct{ Code int }
}

// requestsFor returns the successful requests for an object in an audit log.
func requestsFor(log, resource, name string) (out []request) {
	for line := range strings.Lines(log) {
		var r request
		if strings.Contains(line, `"`+name+`"`) && json.Unmarshal([]byte(line), &r) == nil &&
			r.ObjectRef.Resource == resource && r.ObjectRef.Name == name && r.ResponseStatus.Code < 300 {
			out = append(out, r)
		}
	}
	return out
}

// lastCreated reports whether the latest successful request for a pod creates it. If there is no pod, nobody has asked
// for its end: a PATCH that meets a pod at the moment of its forced deletion ends the deletion, and does so by the pod's
// name, because the API server gives it no UID (1.37, registry/generic/registry/store.go: Update,
// deleteWithoutFinalizers). So it may delete the next pod of the name.
func lastCreated(log, name string) bool {
	all := requestsFor(log, "pods", name)
	return len(all) > 0 && all[len(all)-1].Verb == "create"
}

// claimController is the user as which the cluster's controllers write, of which the claim controller is one.
const claimController = "system:kube-controller-manager"

// lostReservation reports whether Kubernetes' claim controller has taken the reservation of a claim from a bound pod.
// Its cache of pods may still have the previous pod of the name when the scheduler has reserved the claim for this one,
// which it then takes for replaced (1.37, resourceclaim/controller.go: syncClaim). Nothing schedules the pod again, and
// the kubelet refuses it for ever.
func lostReservation(p *corev1.Pod, log string) bool {
	return p != nil && p.Spec.NodeName != "" && slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		if c.ResourceClaimName == nil {
			return false // each pod has another claim by its template
		}
		reserved, lost := false, false
		for _, r := range requestsFor(log, "resourceclaims", *c.ResourceClaimName) {
			if r.Verb != "update" {
				continue // a patch, which has only what it changes
			}
			has := slices.ContainsFunc(r.RequestObject.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID == p.UID })
			lost = !has && (lost || reserved && r.User.Username == claimController)
			reserved = has
		}
		return lost
	})
}

func TestLostReservation(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "new"},
		Spec:       corev1.PodSpec{NodeName: "node-1", ResourceClaims: []corev1.PodResourceClaim{{ResourceClaimName: ptr.To("a-0")}}},
	}
	write := func(user string, uids ...string) string {
		var consumers []string
		for _, uid := range uids {
			consumers = append(consumers, fmt.Sprintf(`{"resource":"pods","name":"a","uid":%q}`, uid))
		}
		return fmt.Sprintf(`{"verb":"update","user":{"username":%q},"objectRef":{"resource":"resourceclaims","name":"a-0"},"requestObject":{"status":{"reservedFor":[%s]}},"responseStatus":{"code":200}}`,
			user, strings.Join(consumers, ",")) + "\n"
	}
	const scheduler = "system:kube-scheduler"
	reserved, taken := write(scheduler, "old", "new"), write(claimController, "old")
	if !lostReservation(pod, reserved+taken) || !lostReservation(pod, reserved+taken+write(claimController)) {
		t.Error("the controller's sign is not recognised")
	}
	for what, log := range map[string]string{
		"it was never reserved":   write(scheduler, "old") + write(claimController),
		"it is reserved":          write(scheduler, "old") + write(claimController) + reserved,
		"it was reserved again":   reserved + taken + write(scheduler, "new"),
		"somebody else took it":   reserved + write("nadra", "old"),
		"the request was refused": reserved + strings.Replace(taken, "200", "409", 1),
		"of another claim":        strings.ReplaceAll(reserved+taken, "a-0", "b-0"),
	} {
		if lostReservation(pod, log) {
			t.Errorf("taken for the controller's: %s", what)
		}
	}
	waiting := pod.DeepCopy()
	waiting.Spec.NodeName = ""
	if lostReservation(waiting, reserved+taken) || lostReservation(nil, reserved+taken) {
		t.Error("taken for the controller's: a pod that the scheduler still places, or none")
	}
}

func TestLastCreated(t *testing.T) {
	request := func(verb, name string, code int) string {
		return fmt.Sprintf(`{"verb":%q,"objectRef":{"resource":"pods","name":%q},"responseStatus":{"code":%d}}`, verb, name, code) + "\n"
	}
	made, deleted := request("create", "a", 201), request("delete", "a", 200)
	for log, want := range map[string]bool{
		made:                  true,
		made + deleted:        false,
		made + deleted + made: true,
		made + deleted + request("create", "a", 409): false,
		made + request("delete", "a", 409):           true, // it means the pod before
		made + request("delete", "ab", 200):          true,
		"":                                           false,
	} {
		if got := lastCreated(log, "a"); got != want {
			t.Errorf("%t, want %t, by\n%s", got, want, log)
		}
	}
}

// restoring is the time between two searches for lost claims.
const restoring = 5 * time.Second

// keepClaims restores claims as long as the test runs, because a life whose pod is
// recreated under its name waits until the previous pod is gone. It retries requests that
// the API server refuses.
func (s *suite) keepClaims(ctx context.Context) {
	var last string
	for pause(ctx, restoring) {
		if err := s.restoreClaims(ctx); err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			s.note("restoring claims: %v", err)
		}
	}
}

// restoreClaims gives back to pods what Kubernetes 1.36's claim controller may take from
// them when the API server is slow: with a cache that is behind it applies a
// status.resourceClaimStatuses that has only the claim which it has just made, and the
// pod's others are gone from it. The kubelet can then neither prepare nor unprepare the pod
// ("ResourceClaim not created yet"), and no driver is ever called. restoreClaims logs each
// of them.
func (s *suite) restoreClaims(ctx context.Context) error {
	var list *resourceapi.ResourceClaimList
	for _, o := range s.pods.List() {
		p := o.(*corev1.Pod)
		missing := claimsWithoutStatus(p)
		if len(missing) == 0 {
			continue
		}
		if list == nil {
			var err error
			if list, err = s.Kube.ResourceV1().ResourceClaims(s.ns).List(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
		}
		for _, c := range list.Items {
			name := c.Annotations[resourceapi.PodResourceClaimAnnotation]
			if !metav1.IsControlledBy(&c, p) || !slices.Contains(missing, name) {
				continue
			}
			s.note("Kubernetes has lost claim %s of pod %s from the pod's status; restored", c.Name, p.Name)
			if err := s.setClaimStatus(ctx, p, name, c.Name); err != nil {
				return fmt.Errorf("restoring claim %s of pod %s: %w", c.Name, p.Name, err)
			}
			s.upstream.lostClaims.Add(1)
		}
	}
	return nil
}

// claimsWithoutStatus returns the claims of a scheduled pod that its status
// does not name. The scheduler has seen them all.
func claimsWithoutStatus(p *corev1.Pod) []string {
	var missing []string
	for _, c := range p.Spec.ResourceClaims {
		if p.Spec.NodeName != "" && c.ResourceClaimTemplateName != nil && !slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(has corev1.PodResourceClaimStatus) bool { return has.Name == c.Name }) {
			missing = append(missing, c.Name)
		}
	}
	return missing
}

func (s *suite) setClaimStatus(ctx context.Context, p *corev1.Pod, name, claim string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status":   map[string]any{"resourceClaimStatuses": []map[string]string{{"name": name, "resourceClaimName": claim}}},
	})
	if err != nil {
		return err
	}
	_, err = s.Kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// keepEnds restarts a CRI-O that has missed the end of containers: the kubelet takes them for running, so that it
// neither restarts them nor ends their pods. The driver's own may be one of them.
func (s *suite) keepEnds(ctx context.Context) {
	for pause(ctx, restoring) {
		missed, err := s.node.Runtime().MissedEnds(ctx)
		if err != nil || len(missed) == 0 { // or the runtime is down
			continue
		}
		s.note("CRI-O has missed the end of containers %.12s; it is restarted", missed)
		s.upstream.missedEnds.Add(int64(len(missed)))
		if err := s.bringDownRuntime(ctx, unix.SIGTERM); err != nil && ctx.Err() == nil {
			s.note("restarting CRI-O: %v", err)
		}
	}
}

// forgotten reports whether a leftover is a network namespace that the runtime made and
// forgot, or the host's end of that namespace's eth0. containerd mounts the namespace first and records it
// afterwards (RunPodSandbox, 2.4); killed between the two, it does not know the namespace after its restart. No other
// program knows such a namespace, so it has only its own lo. CRI-O, by its own log, does not restore a sandbox
// that it was making when it was killed (1.36); its namespace may have eth0, and nothing of nadra's. A runtime that was
// not killed leaves none.
func (s *suite) forgotten(leftover string) (bool, error) {
	kind, name, _ := strings.Cut(leftover, " ")
	if kind != "netns" && kind != "link" || !s.runtimeKilled.Load() {
		return false, nil
	}
	log, err := s.runtimeLog()
	if err != nil {
		return false, err
	}
	if kind == "netns" {
		links, err := s.linksOf("/run/netns/" + name)
		return len(links) <= 1 || len(links) == 2 && links["eth0"] != nil && notRestored(log, name), err
	}
	host, err := s.hostLink(name)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(networkNamespace.FindAllStringSubmatch(log, -1), func(sandbox []string) bool {
		links, err := s.linksOf("/run/netns/" + sandbox[2])
		return err == nil && links["eth0"] != nil && links["eth0"].Attrs().ParentIndex == host && notRestored(log, sandbox[2])
	}), nil
}

// networkNamespace finds the sandboxes in CRI-O's log, with their network namespaces.
var networkNamespace = regexp.MustCompile(`Got pod network &\{[^}]*?\bID:([0-9a-f]+) [^}]*?NetNS:/run/netns/([0-9a-f-]+)`)

// notRestored reports whether CRI-O says that it could not restore the sandbox with a network namespace.
func notRestored(log, netns string) bool {
	return slices.ContainsFunc(networkNamespace.FindAllStringSubmatch(log, -1), func(sandbox []string) bool {
		return sandbox[2] == netns && strings.Contains(log, "Could not restore sandbox "+sandbox[1]+":")
	})
}

func TestNotRestored(t *testing.T) {
	const made = `msg="Got pod network &{Name:a Namespace:faults ID:7088f7 UID:8cbf-1 NetNS:/run/netns/0621-8d Networks:[{Name:default Ifname:eth0}]"` + "\n"
	const lost = `msg="Could not restore sandbox 7088f7: open /var/lib/containers: no such file"`
	for what, tt := range map[string]struct {
		log, netns string
		want       bool
	}{
		"CRI-O's sign":         {made + lost, "0621-8d", true},
		"it was restored":      {made, "0621-8d", false},
		"another namespace":    {made + lost, "0000-8d", false},
		"of another sandbox":   {made + strings.Replace(lost, "7088", "0000", 1), "0621-8d", false},
		"the log says nothing": {"", "0621-8d", false},
	} {
		if got := notRestored(tt.log, tt.netns); got != tt.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// torn reports whether a leftover is an address that host-local has reserved for nobody: it
// creates the file and then writes into it, and was killed in between. No DEL can find it;
// `kubectl nadra cleanup` does.
func (s *suite) torn(leftover string) (bool, error) {
	address, isAddress := strings.CutPrefix(leftover, "host-local address ")
	if !isAddress {
		return false, nil
	}
	root, err := s.node.HostPath("/var/lib/cni/networks")
	if err != nil {
		return false, err
	}
	files, err := filepath.Glob(filepath.Join(root, "*", address))
	if err != nil || len(files) != 1 {
		return false, err
	}
	info, err := os.Stat(files[0])
	return err == nil && info.Size() == 0, err
}

// linksOf returns the interfaces in a network namespace by their names. A file on which no namespace was
// mounted yet has none.
func (s *suite) linksOf(path string) (map[string]netlink.Link, error) {
	outside, err := s.node.HostPath(path)
	if err != nil {
		return nil, err
	}
	var on unix.Statfs_t
	if err := unix.Statfs(outside, &on); err != nil {
		return nil, fmt.Errorf("looking at %s: %w", outside, err)
	}
	if on.Type != unix.NSFS_MAGIC {
		return nil, nil
	}
	ns, err := s.node.PodNetNS(path)
	if err != nil {
		return nil, err
	}
	return linksIn(ns)
}

// hostLink returns the index of one of the node's own interfaces.
func (s *suite) hostLink(name string) (int, error) {
	ns, err := s.node.NetNS()
	if err != nil {
		return 0, err
	}
	links, err := linksIn(ns)
	if links[name] == nil {
		return 0, fmt.Errorf("the node has no interface %s: %w", name, err)
	}
	return links[name].Attrs().Index, nil
}

// linksIn returns the interfaces in a network namespace by their names, and closes it.
func linksIn(ns netns.NsHandle) (map[string]netlink.Link, error) {
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	links, err := h.LinkList()
	out := map[string]netlink.Link{}
	for _, l := range links {
		out[l.Attrs().Name] = l
	}
	return out, err
}
