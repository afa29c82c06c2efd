package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// podSeenWait is how long Prepare waits until the driver's watch has the pod that the
	// kubelet has. After that it asks the API server.
	podSeenWait = 2 * time.Second
	podSeenPoll = 10 * time.Millisecond
)

// podReferences has the claims that the containers of a pod reference. The gate comes with a
// claim's CDI devices, and only into containers that reference the claim.
type podReferences struct {
	// claims has the names of the pod's ResourceClaims by their names in its spec, and refs the first reference to each.
	// Both are without claims that do not exist yet. A spec may have thousands, so none is searched for one by one.
	claims map[string]string
	refs   map[string]podClaim
	// containers has init containers first.
	containers []containerReferences
}

// podClaim is a ResourceClaim of a pod by its name, and its position, in the pod's spec.
type podClaim struct {
	name     string
	position int
}

// containerReferences has the devices that a container requests.
type containerReferences struct {
	name   string
	claims []corev1.ResourceClaim
	// extended has requests, by the name of the claim that the scheduler has made for the
	// pod's extended resources.
	extended map[string][]string
}

// referencesOf returns what a pod's containers reference. It returns nil for a pod without
// claims.
func referencesOf(pod *corev1.Pod) *podReferences {
	extended := pod.Status.ExtendedResourceClaimStatus
	if len(pod.Spec.ResourceClaims) == 0 && extended == nil {
		return nil
	}
	out := &podReferences{claims: map[string]string{}, refs: map[string]podClaim{}}
	made := map[string]*string{}
	for _, s := range pod.Status.ResourceClaimStatuses {
		made[s.Name] = s.ResourceClaimName
	}
	for i, c := range pod.Spec.ResourceClaims {
		claim := cmp.Or(c.ResourceClaimName, made[c.Name])
		if claim == nil {
			continue
		}
		out.claims[c.Name] = *claim
		if _, found := out.refs[*claim]; !found {
			out.refs[*claim] = podClaim{c.Name, i}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		r := containerReferences{name: c.Name, claims: c.Resources.Claims}
		if extended != nil {
			for _, m := range extended.RequestMappings {
				if m.ContainerName == c.Name {
					r.extended = map[string][]string{extended.ResourceClaimName: append(r.extended[extended.ResourceClaimName], m.RequestName)}
				}
			}
		}
		out.containers = append(out.containers, r)
	}
	return out
}

// knows reports whether the pod's spec or status names the claim.
func (p *podReferences) knows(claim *resourceapi.ResourceClaim) bool {
	return isExtended(claim) || p.names(refOf(claim))
}

// position returns the position of a claim in the pod's spec. Claims that it does not name, such as the one for
// extended resources, come last.
func (p *podReferences) position(claim string) int {
	if c, found := p.refs[claim]; found {
		return c.position
	}
	return math.MaxInt
}

// names reports whether the pod's spec or status names the claim.
func (p *podReferences) names(ref attachment.ClaimRef) bool {
	_, found := p.refs[ref.Name]
	return found
}

// allOf reports whether match returns true for the names of all claims.
func (p *podReferences) allOf(match func(claim string) bool) bool {
	for claim := range p.refs {
		if !match(claim) {
			return false
		}
	}
	return true
}

// knowsAll reports whether the pod names all claims. A pod without claims (nil) names none.
func (p *podReferences) knowsAll(claims []*resourceapi.ResourceClaim) bool {
	return p != nil && !slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool { return !p.knows(c) })
}

// ungated returns the containers that get no CDI device from these claims, and so no gate.
func (p *podReferences) ungated(claims []*resourceapi.ResourceClaim) []string {
	var out []string
	for _, c := range p.containers {
		if !slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool { return p.gates(claim, c) }) {
			out = append(out, c.name)
		}
	}
	return out
}

// gates reports whether a container gets a device of nadra's from a claim.
func (p *podReferences) gates(claim *resourceapi.ResourceClaim, c containerReferences) bool {
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != v1alpha1.DriverName {
			continue
		}
		if slices.Contains(c.extended[claim.Name], result.Request) {
			return true
		}
		request, _, _ := strings.Cut(result.Request, "/") // of a request's alternatives
		for _, ref := range c.claims {
			if p.claims[ref.Name] == claim.Name && (ref.Request == "" || ref.Request == request) {
				return true
			}
		}
	}
	return false
}

// nameOf returns the name of a claim in the pod's spec, which that of its extended resources has not.
func (p *podReferences) nameOf(claim *resourceapi.ResourceClaim) (name string, ok bool) {
	c, ok := p.refs[claim.Name]
	return c.name, ok
}

// checkContainers refuses a pod with a container that nothing would hold until the networks are
// attached: the gate comes only with a claim's devices, and NRI, which could bring it, drops
// a plugin that is late and starts the container. The kubelet starts no pod whose claims are
// not prepared, whatever happens to the driver or to NRI.
func (p *preparer) checkContainers(ctx context.Context, claims []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	networks := func(one attachment.Prepared) bool { return !one.DeviceOnly }
	i := slices.IndexFunc(prepared, func(of []attachment.Prepared) bool { return slices.ContainsFunc(of, networks) })
	if i < 0 || failpoint.Off(failpoint.Reference) {
		return nil
	}
	pod := prepared[i][0].Pod
	references, err := p.references(ctx, pod, claims)
	if err != nil {
		return reason.Errorf(reason.PodNotRead, "pod %s: reading which claims its containers reference: %w", pod, err)
	}
	ungated := references.ungated(claims)
	if len(ungated) == 0 {
		return nil
	}
	remedy := "name the networks in the pod's annotation " + attachment.NetworksAnnotation + " or in claims, in place of an extended resource, which only its own container waits for"
	if name, ok := references.nameOf(claims[0]); ok {
		remedy = fmt.Sprintf("create the pod again with {name: %s} there, in every container and init container; a copy of a pod (kubectl debug --copy-to) gets it with --keep-annotations. "+
			"Where nadra's webhook is installed and answers, it completes both", name)
	}
	return reason.Errorf(reason.ContainerWithoutClaim, "pod %s: nothing would hold container %s until the pod's networks are attached, because resources.claims of it names no claim with networks: %s",
		pod, strings.Join(ungated, ", "), remedy)
}

// references returns what the containers of a pod with these claims reference. It asks the
// API server if the watch is behind the kubelet, which would retry a refused pod only after a
// minute or more.
func (w *podWatch) references(ctx context.Context, pod attachment.PodRef, claims []*resourceapi.ResourceClaim) (*podReferences, error) {
	if out := w.awaitReferences(ctx, pod, claims); out != nil {
		return out, nil
	}
	now, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	out := referencesOf(now)
	if string(now.UID) != pod.UID || !out.knowsAll(claims) {
		return nil, errors.New("the API server's pod does not name all claims that the kubelet wants prepared")
	}
	return out, nil
}
