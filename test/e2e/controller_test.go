//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

const dropInConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-drop","ipam":{}}`

// TestController tests the controller on a real cluster, from its installation to its end.
// Its parts share one installation and depend on each other.
func TestController(t *testing.T) {
	f := setup(t, "dropin")
	f.bridge("br-drop")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	began := time.Now()
	f.Must(f.InstallController(f.Ctx, "--template-grace=4s", "--pools"))
	t.Logf("installed and ready after %s", since(began))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.nad("net", dropInConf)
	f.Must(f.Published(f.Ctx, "dropin/net"))

	f.part("classes follow their NADs", (*fixture).classesFollow)
	f.part("a pool has a class, and a NAD without a class has an Event", (*fixture).poolsAndRemarks)
	f.part("a Deployment runs unchanged", (*fixture).deploymentRuns)
	f.part("claim statuses are applied", (*fixture).statusIsApplied)
	f.part("200 pods make one template", (*fixture).oneTemplate)
	f.part("invalid pods are refused", (*fixture).refusals)
	f.part("a pod whose template cannot be created waits, and says why", (*fixture).templatesForbidden)
	f.part("pods of others are not changed", (*fixture).leftAlone)
	f.part("a pod that names its node gets no claim", (*fixture).namesItsNode)
	f.part("pods beyond a limit are refused", (*fixture).beyondLimits)
	f.part("annotations that others add are seen", (*fixture).addedAnnotations)
	f.part("templates are recreated, and deleted", (*fixture).templatesComeAndGo)
	f.part("an outage holds back only annotated pods", (*fixture).outage)
	f.part("another replica follows a killed leader", (*fixture).leaderKilled)
	f.part("a deleted certificate is recreated", (*fixture).certificate)
	f.part("uninstalling deletes unused objects of nadra", (*fixture).uninstalling)
}

// part runs a part of a test; later parts depend on its results.
func (f *fixture) part(name string, do func(*fixture)) {
	f.Run(name, func(t *testing.T) {
		part := *f
		part.T = t
		do(&part)
		if t.Failed() {
			t.Log(part.ControllerLog(part.Ctx))
		}
	})
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }

func (f *fixture) class(nad string) (*resourceapi.DeviceClass, error) {
	return f.Kube.ResourceV1().DeviceClasses().Get(f.Ctx, nad+"."+f.NS+".nad.nadra.dev", metav1.GetOptions{})
}

// hasClass waits until a NAD has a class that selects by its ID, or no longer has one.
func (f *fixture) hasClass(nad string, want bool) {
	f.Helper()
	f.hasClassFor(nad, lab.NetworkID(f.NS+"/"+nad).Selector(), want)
}

// hasClassFor does the same for a class that selects by another text.
func (f *fixture) hasClassFor(nad, selected string, want bool) {
	f.Helper()
	f.Eventually(2*time.Minute, func(context.Context) error {
		c, err := f.class(nad)
		switch {
		case apierrors.IsNotFound(err) && !want:
			return nil
		case err != nil:
			return err
		case !want:
			return fmt.Errorf("class %s is still there", c.Name)
		case len(c.Spec.Selectors) != 1 || !strings.Contains(c.Spec.Selectors[0].CEL.Expression, selected):
			return fmt.Errorf("class %s selects %v", c.Name, c.Spec.Selectors)
		}
		return nil
	})
}

func (f *fixture) classesFollow() {
	began := time.Now()
	f.nad("late", dropInConf)
	f.hasClass("late", true)
	f.Logf("a class %s after its NAD", since(began))
	f.Kubectl("patch", "deviceclass", "late.dropin.nad.nadra.dev", "--type=merge", "-p", `{"spec":{"selectors":[]}}`)
	f.hasClass("late", true)

	f.Must(f.Apply(f.Ctx, `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: mine.dropin.nad.nadra.dev},
spec: {selectors: [{cel: {expression: 'device.driver == "net.nadra.dev"'}}]}}`))
	before, err := f.class("mine")
	f.Must(err)
	f.nad("mine", dropInConf)
	f.nad("after", dropInConf)
	f.hasClass("after", true)
	for _, nad := range []string{"late", "mine", "after"} {
		f.Kubectl("-n", f.NS, "delete", "net-attach-def", nad)
	}
	f.hasClass("late", false)
	f.hasClass("after", false)
	now, err := f.class("mine")
	f.Must(err)
	if now.ResourceVersion != before.ResourceVersion {
		f.Error("a handwritten class was changed")
	}
}

func (f *fixture) poolsAndRemarks() {
	f.Must(f.Apply(f.Ctx, `{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
metadata: {name: vf, namespace: dropin, annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/sriov}},
spec: {config: '{"cniVersion":"1.0.0","type":"sriov"}'}}`))
	f.hasClassFor("vf", "example.com/sriov", true)
	serves := ""
	on, err := lab.FeatureOn(f.Ctx, f.Kube, "DRAExtendedResource")
	f.Must(err)
	if on {
		serves = "example.com/sriov"
	}
	f.Eventually(2*time.Minute, func(context.Context) error {
		class, err := f.Kube.ResourceV1().DeviceClasses().Get(f.Ctx, "sriov.example.com.pool.nadra.dev", metav1.GetOptions{})
		if err == nil && ptr.Deref(class.Spec.ExtendedResourceName, "") != serves {
			err = fmt.Errorf("the pool's class serves %q, want %q", ptr.Deref(class.Spec.ExtendedResourceName, ""), serves)
		}
		return err
	})
	f.nad("broken", `{"type":`)
	f.Eventually(2*time.Minute, func(context.Context) error {
		printed := strings.Join(f.Events(f.Ctx, f.NS, "broken"), "\n")
		return contains("the Events of the broken NAD", printed, []string{"NoDeviceClass", lab.Code(reason.NetworkInvalid), "spec.config"})
	})
	f.hasClass("broken", false)
	f.Kubectl("-n", f.NS, "delete", "net-attach-def", "broken", "vf")
	f.hasClass("vf", false)
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: dropin}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {k8s.v1.cni.cncf.io/networks: net@data}
    spec:
      terminationGracePeriodSeconds: 0
      initContainers:
      - {name: early, image: "localhost/test:1", imagePullPolicy: Never, command: [ip, link, show, data]}
      containers:
      - {name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [sleep, infinity]}
      - {name: side, image: "localhost/test:1", imagePullPolicy: Never, command: [sleep, infinity]}
`

func (f *fixture) deploymentRuns() {
	began := time.Now()
	f.Must(f.Apply(f.Ctx, deployment))
	f.Kubectl("-n", f.NS, "rollout", "status", "deploy/web", "--timeout=240s")
	f.Logf("10 pods ready after %s", since(began))
	links := f.Kubectl("-n", f.NS, "exec", "deploy/web", "-c", "side", "--", "ip", "link", "show", "data")
	if !strings.Contains(links, "data") {
		f.Errorf("the pod has no interface data:\n%s", links)
	}
	if names := f.templateNames(); len(names) != 1 {
		f.Errorf("10 pods of a Deployment made templates %v", names)
	}
}

// statusIsApplied checks that the driver stores a claim's status by one apply, and that another program may
// apply its own part: the API server refuses both if that sorts keys of the allocation's parameters.
func (f *fixture) statusIsApplied() {
	claims := f.Kube.ResourceV1().ResourceClaims(f.NS)
	list, err := claims.List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	for _, c := range list.Items {
		if len(c.Status.Devices) != 1 || len(c.Status.Allocation.Devices.Config) == 0 {
			f.Fatalf("claim %s has devices %v, and configs %v in its allocation", c.Name, c.Status.Devices, c.Status.Allocation)
		}
		if !slices.ContainsFunc(c.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == lab.DriverName && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "status"
		}) {
			f.Errorf("the driver has not applied the status of claim %s: %+v", c.Name, c.ManagedFields)
		}
		d := c.Status.Devices[0]
		seen := resourceac.AllocatedDeviceStatus().WithDriver(d.Driver).WithPool(d.Pool).WithDevice(d.Device).WithConditions(
			metav1ac.Condition().WithType("Seen").WithStatus(metav1.ConditionTrue).WithReason("Seen").WithMessage("").WithLastTransitionTime(metav1.Now()))
		seen.ShareID = d.ShareID
		_, err := claims.ApplyStatus(f.Ctx, resourceac.ResourceClaim(c.Name, c.Namespace).WithStatus(resourceac.ResourceClaimStatus().WithDevices(seen)),
			metav1.ApplyOptions{FieldManager: "other.example.com"})
		f.Must(err)
	}
}

func (f *fixture) templateNames() []string {
	f.Helper()
	list, err := f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// asking returns a pod with only a networks annotation.
func asking(namespace, name, networks string) *corev1.Pod {
	pod := lab.Pod(namespace, name, "")
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	if networks != "" {
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
	}
	return pod
}

// controlled gives a pod a controller, which creates it again if it is refused.
func controlled(pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: ptr.To(true)}}
	return pod
}

func (f *fixture) dry(pod *corev1.Pod) (*corev1.Pod, error) {
	return f.Kube.CoreV1().Pods(pod.Namespace).Create(f.Ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// template returns the name of the claim template that a pod references.
func template(pod *corev1.Pod) string {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			return *c.ResourceClaimTemplateName
		}
	}
	return ""
}

func (f *fixture) oneTemplate() {
	before := f.templateNames()
	took := make([]time.Duration, 200)
	errs := make([]error, len(took))
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := worker; i < len(took); i += 4 {
				began := time.Now()
				var pod *corev1.Pod
				if pod, errs[i] = f.dry(asking(f.NS, fmt.Sprintf("dry-%d", i), "net@data")); errs[i] == nil && template(pod) != before[0] {
					errs[i] = fmt.Errorf("it references template %q", template(pod))
				}
				took[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			f.Fatalf("pod %d: %v", i, err)
		}
	}
	slices.Sort(took)
	f.Logf("200 pods created for a dry run, by 4 at a time: median %s, 99th percentile %s", took[100].Round(100*time.Microsecond), took[198].Round(100*time.Microsecond))
	if now := f.templateNames(); !slices.Equal(now, before) {
		f.Errorf("templates %v became %v", before, now)
	}
	// A dry run for new networks creates no template either.
	pod, err := f.dry(asking(f.NS, "dry", "net@new"))
	f.Must(err)
	if template(pod) == "" || slices.Contains(f.templateNames(), template(pod)) {
		f.Errorf("a dry run refers to template %q, and there are %v", template(pod), f.templateNames())
	}
}

// isRefused creates a pod and fails the test unless the API server refuses it with all
// these texts.
func (f *fixture) isRefused(pod *corev1.Pod, texts ...string) {
	f.Helper()
	_, err := f.CreatePod(f.Ctx, pod)
	if err == nil {
		f.Errorf("pod %s was admitted", pod.Name)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			f.Errorf("pod %s: the refusal lacks %q:\n%v", pod.Name, text, err)
		}
	}
}

func (f *fixture) refusals() {
	f.isRefused(asking(f.NS, "broken", "[{\"name\":\n \"net\",]"), lab.Code(reason.NotConvertible), "line 2", "NADRA-001")
	// A pod whose network is missing waits for it, unless it has a controller, which creates it again.
	f.isRefused(controlled(asking(f.NS, "controlled", "nowhere")), lab.Code(reason.NotConvertible), "dropin/nowhere", "NADRA-011")
	_, err := f.CreatePod(f.Ctx, asking(f.NS, "unknown", "nowhere"))
	f.Must(err)
	f.nad("nowhere", dropInConf)
	_, err = f.Ready(f.Ctx, f.NS, "unknown", 2*time.Minute)
	f.Must(err)

	// Another template has the name that nadra would choose.
	f.Must(f.CreateNAD(f.Ctx, f.NS, "taken", dropInConf))
	pod, err := f.dry(asking(f.NS, "taken", "taken"))
	f.Must(err)
	theirs := lab.Template(f.NS, template(pod), lab.Want{Network: "net"})
	f.Must(f.CreateTemplate(f.Ctx, theirs))
	f.Eventually(time.Minute, func(context.Context) error {
		if _, err := f.dry(asking(f.NS, "taken", "taken")); err == nil || !strings.Contains(err.Error(), "NADRA-043") || !strings.Contains(err.Error(), template(pod)) {
			return fmt.Errorf("a pod whose template is another's: %w", err)
		}
		return nil
	})
	now, err := f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).Get(f.Ctx, template(pod), metav1.GetOptions{})
	f.Must(err)
	if now.Generation > 1 || now.Labels != nil {
		f.Error("a template that is not nadra's was changed")
	}

	// The webhook also validates handwritten claims.
	bad := lab.Template(f.NS, "by-hand", lab.Want{Network: "net", Config: map[string]any{"nonsense": 1}})
	if err := f.CreateTemplate(f.Ctx, bad); err == nil || !strings.Contains(err.Error(), "nonsense") {
		f.Errorf("a template with an unknown field: %v", err)
	}
}

// templatesForbidden prevents the creation of new templates by a quota, and then by the
// controller's own rights. A pod that waits for its template gets it when that is over.
func (f *fixture) templatesForbidden() {
	held := func(name string, texts ...string) {
		f.Helper()
		pod := f.waiting(name, "net@"+name)
		f.Eventually(2*time.Minute, func(context.Context) error {
			return contains("the Events of pod "+name, strings.Join(f.Events(f.Ctx, f.NS, name), "\n"), append(texts, reason.EventTemplateMissing, lab.Code(reason.TemplateNotCreated)))
		})
		if slices.Contains(f.templateNames(), template(pod)) {
			f.Errorf("pod %s has a template", name)
		}
	}
	released := func(name string) {
		f.Helper()
		f.hasClaim(name)
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	f.Must(f.Apply(f.Ctx, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: dropin},
spec: {hard: {count/resourceclaimtemplates.resource.k8s.io: 0}}}`))
	held("quota", "exceeded quota: none", "count/resourceclaimtemplates.resource.k8s.io")
	f.Kubectl("-n", f.NS, "delete", "resourcequota", "none")
	released("quota")

	roles := f.Kube.RbacV1().ClusterRoles()
	role, err := roles.Get(f.Ctx, "nadra-controller", metav1.GetOptions{})
	f.Must(err)
	rules := role.DeepCopy().Rules
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, "resourceclaimtemplates") {
			role.Rules[i].Verbs = []string{"get", "list", "watch", "delete"}
		}
	}
	role, err = roles.Update(f.Ctx, role, metav1.UpdateOptions{})
	f.Must(err)
	held("rights", "ResourceClaimTemplate dropin/", `cannot create resource "resourceclaimtemplates"`)
	role.Rules = rules
	_, err = roles.Update(f.Ctx, role, metav1.UpdateOptions{})
	f.Must(err)
	released("rights")
}

// beyondLimits checks that the webhook refuses pods whose annotation is beyond a limit.
func (f *fixture) beyondLimits() {
	for name, annotation := range beyondLimits {
		if _, err := f.dry(asking(f.NS, name, annotation)); err == nil || !strings.Contains(err.Error(), lab.Code(reason.LimitExceeded)) {
			f.Errorf("the webhook answers %v for %s", err, name)
		}
	}
}

// namesItsNode checks that a pod with spec.nodeName, which the scheduler ignores, gets its networks from
// a node of nadra without a claim.
func (f *fixture) namesItsNode() {
	named := func(name string) *corev1.Pod {
		pod := asking(f.NS, name, "net")
		pod.Spec.NodeName = f.node.Name()
		return pod
	}
	dry, err := f.dry(named("dry"))
	f.Must(err)
	if len(dry.Spec.ResourceClaims) > 0 || dry.Annotations["required-plugins.noderesource.dev"] != "[nadra]" {
		f.Errorf("a pod with spec.nodeName has the annotations %v and the claims %v", dry.Annotations, dry.Spec.ResourceClaims)
	}
	_, err = f.CreatePod(f.Ctx, named("direct"))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "direct", time.Minute)
	f.Must(err)
	f.Eventually(30*time.Second, func(ctx context.Context) error { return f.listsInterface(ctx, "direct", "net1") })
	f.Must(f.DeletePod(f.Ctx, f.NS, "direct"))
}

// leftAlone checks that nadra does not change pods without networks, and does not convert
// those of Multus' namespaces.
func (f *fixture) leftAlone() {
	plain, err := f.dry(asking(f.NS, "plain", ""))
	f.Must(err)
	blank, err := f.dry(asking(f.NS, "blank", "  "))
	f.Must(err)
	for _, pod := range []*corev1.Pod{plain, blank} {
		if pod.Spec.ResourceClaims != nil || pod.Spec.Affinity != nil {
			f.Errorf("pod %s was changed: %v", pod.Name, pod.Spec)
		}
	}
	other, err := f.dry(asking("default", "other", "dropin/net"))
	f.Must(err)
	if other.Spec.ResourceClaims != nil {
		f.Error("a pod of a namespace without the label was converted")
	}
	if text, _ := json.Marshal(other.Spec.Affinity); !bytes.Contains(text, []byte("nadra.dev/owner")) {
		f.Errorf("a pod that stays on Multus may run on nadra's nodes: %s", text)
	}
}
