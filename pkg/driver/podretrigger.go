package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// retriggerAnnotation on a pod has the time at which the driver last made the kubelet try the
// pod again.
const retriggerAnnotation = "nadra.dev/retriggered"

// podRetrigger wins back the minute that a pod loses if the kubelet could not have its claims
// prepared because no driver was registered: after a reboot, with a new driver or a new
// kubelet. The kubelet tries such a pod again only when it syncs its pods, every minute. A pod
// that is changed it tries at once.
type podRetrigger struct {
	*node
	registered background.Trigger
	// latest is the kubelet's latest registration of the driver; nil before.
	latest atomic.Pointer[registration]

	mu sync.Mutex
	// preparing counts the calls of the kubelet that prepare a claim, by the claim's namespace
	// and name.
	preparing map[types.NamespacedName]int
	// waiting has the pods that are retriggered when they are ready.
	waiting map[attachment.PodRef]bool
}

// retriggersAtOnce is the number of pods that are read and changed at a time.
const retriggersAtOnce = 8

// registrationWait is how long a driver waits for the kubelet before it takes over. The kubelet
// looks for new drivers every second.
const (
	registrationWait = 10 * time.Second
	registrationPoll = 20 * time.Millisecond
)

// registration is the kubelet's answer to the driver's registration.
type registration struct {
	at time.Time
	// refused is why the kubelet does not register the driver, or "".
	refused string
}

// newPodRetrigger returns a podRetrigger for a driver that is not registered.
func newPodRetrigger(n *node) *podRetrigger {
	return &podRetrigger{node: n, registered: background.NewTrigger(), preparing: map[types.NamespacedName]int{}, waiting: map[attachment.PodRef]bool{}}
}

// intercept records that the kubelet has registered, or refused, the driver, and the claims that
// the kubelet is having prepared.
func (p *podRetrigger) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if prepare, ok := request.(*drapb.NodePrepareResourcesRequest); ok {
		p.count(prepare, 1)
		defer p.count(prepare, -1)
	}
	answer, err := handle(ctx, request)
	status, ok := request.(*registerapi.RegistrationStatus)
	if ok && !status.PluginRegistered {
		p.latest.Store(&registration{at: time.Now(), refused: cmp.Or(status.Error, "it gives no reason")})
	}
	if ok && err == nil && status.PluginRegistered {
		p.latest.Store(&registration{at: time.Now()})
		p.registered.Set()
	}
	return answer, err
}

// awaitRegistration waits until the kubelet has answered to the registration, for a while.
func (p *podRetrigger) awaitRegistration(ctx context.Context) {
	_ = wait.PollUntilContextTimeout(ctx, registrationPoll, p.registrationWait, true, func(context.Context) (bool, error) {
		return p.latest.Load() != nil, nil
	})
}

// count adds n to the number of calls for each of the claims.
func (p *podRetrigger) count(request *drapb.NodePrepareResourcesRequest, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range request.Claims {
		key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		if p.preparing[key] += n; p.preparing[key] == 0 {
			delete(p.preparing, key)
		}
	}
}

// isPreparing reports whether the kubelet waits for the answer about one of these claims.
func (p *podRetrigger) isPreparing(namespace string, names []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool {
		return p.preparing[types.NamespacedName{Namespace: namespace, Name: name}] > 0
	})
}

// run retriggers the pods that wait, after every registration, until ctx ends. A pod that
// cannot be retriggered starts later.
func (p *podRetrigger) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.registered.C():
		}
		if err := p.retrigger(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Pods that waited for the driver may start a minute later")
		}
	}
}

// readyWait limits the time for which a pod is waited for: the kubelet asks again meanwhile.
const readyWait = 5 * time.Minute

// when makes the kubelet try a pod again, of which it was refused a container, as soon as ready returns
// true. ready waits, and returns false if the container would be refused again.
func (p *podRetrigger) when(pod attachment.PodRef, ready func(context.Context) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[pod] {
		return
	}
	p.waiting[pod] = true
	p.background.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(operations.WithPod(ctx, pod), readyWait)
		defer cancel()
		again := ready(ctx)
		p.mu.Lock()
		delete(p.waiting, pod)
		p.mu.Unlock()
		if !again || ctx.Err() != nil {
			return
		}
		if err := p.annotate(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "A pod whose networks are attached may start some seconds later")
		}
	})
}

// retrigger makes the kubelet try again the pods of this node that wait until it prepares
// claims of this driver.
func (p *podRetrigger) retrigger(ctx context.Context) error {
	pods, err := p.clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.cfg.NodeName).String(),
	})
	if err != nil {
		return fmt.Errorf("listing the node's pods: %w", err)
	}
	errs := make([]error, len(pods.Items))
	var group errgroup.Group
	group.SetLimit(retriggersAtOnce)
	for i := range pods.Items {
		group.Go(func() error {
			errs[i] = p.retriggerPod(ctx, &pods.Items[i])
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return errors.Join(errs...)
}

// retriggerPod annotates a pod if it waits.
func (p *podRetrigger) retriggerPod(ctx context.Context, pod *corev1.Pod) error {
	waits, err := p.waitsForDriver(ctx, pod)
	if waits {
		err = p.annotate(ctx, attachment.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	}
	if apierrors.IsNotFound(err) { // the pod is gone meanwhile
		return nil
	}
	return err
}

// annotate changes a pod, so that the kubelet tries it again.
func (p *podRetrigger) annotate(ctx context.Context, pod attachment.PodRef) error {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	if err := kube.AnnotatePod(ctx, p.clients.Kube, v1alpha1.DriverName, pod, "", retriggerAnnotation, now); err != nil {
		return fmt.Errorf("retriggering pod %s: %w", pod, err)
	}
	klog.FromContext(ctx).Info("The kubelet may have waited for the driver; made it retry the pod", "pod", klog.KRef(pod.Namespace, pod.Name))
	return nil
}

// waitsForDriver reports whether a pod waits for claims of this driver: its prepared claims are
// not attached since the node was started, or no claim is prepared, and one is allocated to the
// driver. A pod does not wait whose claims the kubelet is having prepared.
func (p *podRetrigger) waitsForDriver(ctx context.Context, pod *corev1.Pod) (bool, error) {
	claims := attachment.ClaimNames(pod)
	if attachment.IsOver(pod) || pod.DeletionTimestamp != nil || len(claims) == 0 || p.isPreparing(pod.Namespace, claims) {
		return false, nil
	}
	if records := p.store.ForPod(string(pod.UID)); len(records) > 0 {
		return slices.ContainsFunc(records, p.notInThisBoot), nil
	}
	if pod.Status.Phase != corev1.PodPending {
		return false, nil
	}
	for _, name := range claims {
		claim, err := p.clients.Kube.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading claim %s of pod %s/%s: %w", name, pod.Namespace, pod.Name, err)
		}
		if attachment.HasDevices(claim) {
			return true, nil
		}
	}
	return false, nil
}

// notInThisBoot reports whether a record's device is in no sandbox that was made since the node
// was started.
func (p *podRetrigger) notInThisBoot(r checkpoint.Record) bool {
	return r.Sandbox == nil || r.BootID != p.store.BootID()
}
