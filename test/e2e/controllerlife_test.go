//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The parts of TestController in which a part of the controller goes away.

// hasTemplate waits until a template exists, or no longer does.
func (f *fixture) hasTemplate(name string, want bool) {
	f.Helper()
	f.Eventually(time.Minute, func(context.Context) error {
		if got := slices.Contains(f.templateNames(), name); got != want {
			return fmt.Errorf("template %s is there: %v, want %v", name, got, want)
		}
		return nil
	})
}

// waiting creates a pod that fits no node.
func (f *fixture) waiting(name, networks string) *corev1.Pod {
	f.Helper()
	pod := asking(f.NS, name, networks)
	pod.Spec.NodeSelector = map[string]string{"nowhere": "at-all"}
	pod, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	return pod
}

func (f *fixture) deleteTemplate(name string) {
	f.Helper()
	f.Must(f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).Delete(f.Ctx, name, metav1.DeleteOptions{}))
}

func (f *fixture) templatesComeAndGo() {
	web := f.template("web")
	pod := f.waiting("waits", "net@waits")
	f.hasTemplate(template(pod), true)
	f.deleteTemplate(template(pod))
	began := time.Now()
	f.hasTemplate(template(pod), true)
	f.Logf("a template that was deleted is there again after %s", since(began))

	f.Must(f.DeletePod(f.Ctx, f.NS, "waits"))
	began = time.Now()
	f.hasTemplate(template(pod), false)
	f.Logf("a template that no pod refers to is gone after %s, of which 4s are the flag's", since(began))
	f.hasTemplate(web, true)
}

// template returns the name of the template of a Deployment's pods.
func (f *fixture) template(app string) string {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	f.Must(err)
	if len(pods.Items) == 0 {
		f.Fatalf("there are no pods of %s", app)
	}
	return template(&pods.Items[0])
}

func (f *fixture) outage() {
	f.nad("leaves", dropInConf)
	f.hasClass("leaves", true)
	pod := f.waiting("waits", "net@away")
	f.Must(f.ScaleController(f.Ctx, 0))

	f.isRefused(asking(f.NS, "held", "net"), "nadra")
	_, err := f.CreatePod(f.Ctx, asking(f.NS, "plain", ""))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "plain", time.Minute)
	f.Must(err)
	f.Kubectl("-n", f.NS, "rollout", "status", "deploy/web", "--timeout=10s")
	f.Kubectl("-n", f.NS, "delete", "net-attach-def", "leaves")
	f.deleteTemplate(template(pod))

	f.Must(f.ScaleController(f.Ctx, 2))
	began := time.Now()
	f.hasClass("leaves", false)
	f.hasTemplate(template(pod), true)
	f.Logf("everything is right %s after the controller is back", since(began))
	f.Eventually(time.Minute, func(context.Context) error {
		_, err := f.CreatePod(f.Ctx, asking(f.NS, "held", "net"))
		return err
	})
	_, err = f.Ready(f.Ctx, f.NS, "held", time.Minute)
	f.Must(err)
	f.Must(f.DeletePod(f.Ctx, f.NS, "waits"))
}

// deadReplica is how long the Service of the webhook may still lead to a replica that was killed:
// until the kubelet notices, and the nodes follow the EndpointSlice.
const deadReplica = 5 * time.Second

// leaderless is how long no replica may lead after the leader was killed. With the Lease's 15 s, and 2.0 to 4.4 s between a
// replica's looks at it, it is 24 s: the other replica has seen the last renewal up to 4.4 s late, and looks again up to
// 4.4 s after the Lease has expired. The rest is for a machine that other lanes keep busy.
const leaderless = 24*time.Second + 6*time.Second

// leaderKilled creates networks while no replica leads. The other replica must admit pods
// as soon as the webhook's Service no longer leads to the dead one.
func (f *fixture) leaderKilled() {
	lease, err := f.Kube.CoordinationV1().Leases("nadra-system").Get(f.Ctx, "nadra-controller", metav1.GetOptions{})
	f.Must(err)
	leader, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	// A pod that is deleted by force would still have two seconds to release the Lease.
	killed := f.sh(`for p in ` + strings.ReplaceAll(f.processes("nadra-controlle"), "\n", " ") + `; do
		grep -qz "^HOSTNAME=` + leader + `$" /proc/$p/environ && kill -9 $p && echo $p; done; true`)
	if len(strings.Fields(killed)) != 1 {
		f.Fatalf("of the leader %s processes %q were killed, want one", leader, killed)
	}
	began := time.Now()
	const networks = 100
	for i := range networks {
		f.nad(fmt.Sprintf("many-%d", i), dropInConf)
	}
	refused, asked := 0, 0
	var waits *corev1.Pod
	f.Eventually(time.Minute, func(ctx context.Context) (err error) {
		pod := asking(f.NS, "leaderless", "net@leaderless")
		pod.Spec.NodeSelector = map[string]string{"nowhere": "at-all"}
		waits, err = f.CreatePod(ctx, pod)
		return err
	})
	f.Eventually(2*time.Minute, func(context.Context) error {
		asked++
		before := time.Since(began)
		if _, err := f.dry(asking(f.NS, "during", "net@data")); err != nil {
			refused++
			f.Logf("%s after the leader's end: %v", before, err)
			if before > deadReplica || !strings.Contains(err.Error(), "connection refused") {
				f.Errorf("a pod was refused although a replica was there, %s after the leader's end: %v", before, err)
			}
		}
		list, err := f.Kube.ResourceV1().DeviceClasses().List(f.Ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=nadra-controller"})
		if err == nil && len(list.Items) < networks {
			err = fmt.Errorf("%d NADs, %d classes", networks, len(list.Items))
		}
		return err
	})
	took := time.Since(began)
	next, err := f.Kube.CoordinationV1().Leases("nadra-system").Get(f.Ctx, lease.Name, metav1.GetOptions{})
	f.Must(err)
	led := next.Spec.AcquireTime.Sub(began)
	f.Logf("another replica leads %s after the leader was killed", led.Round(10*time.Millisecond))
	if led < 0 || led > leaderless {
		f.Errorf("another replica leads %s after the leader was killed, want at most %s", led, leaderless)
	}
	f.Logf("%d networks have their classes %s after the leader was killed; of %d pods %d were refused", networks, took, asked, refused)
	f.hasTemplate(template(waits), true)
	f.Logf("the pod that was created meanwhile has its template %s after the leader was killed", since(began))
	f.hasClaim("leaderless")
	f.Logf("and its claim after %s", since(began))
	f.Must(f.DeletePod(f.Ctx, f.NS, "leaderless"))
	if took < deadReplica {
		f.Errorf("the networks had their classes %s after the leader's end: it was too short to see who admits pods without a leader", took)
	}
	f.Must(f.WaitController(f.Ctx))
}

func (f *fixture) certificate() {
	secrets := f.Kube.CoreV1().Secrets("nadra-system")
	before, err := secrets.Get(f.Ctx, "nadra-webhook-tls", metav1.GetOptions{})
	f.Must(err)
	f.Must(secrets.Delete(f.Ctx, before.Name, metav1.DeleteOptions{}))
	began, refused := time.Now(), 0
	for time.Since(began) < 5*time.Second {
		if _, err := f.dry(asking(f.NS, "during", "net@data")); err != nil {
			refused++
		}
		time.Sleep(20 * time.Millisecond)
	}
	f.Eventually(2*time.Minute, func(context.Context) error {
		now, err := secrets.Get(f.Ctx, before.Name, metav1.GetOptions{})
		if err == nil && now.UID == before.UID {
			err = errors.New("the Secret is the same")
		}
		return err
	})
	_, err = f.dry(asking(f.NS, "after", "net@data"))
	f.Must(err)
	if refused > 0 {
		f.Errorf("while the certificate was recreated %d pods were refused, of one every 20 ms", refused)
	}
}

func (f *fixture) uninstalling() {
	printed, err := f.Uninstall(f.Ctx)
	f.Must(err)
	web := f.template("web")
	f.containsAll(printed, "kept ResourceClaimTemplate dropin/"+web, "kept DeviceClass net.dropin.nad.nadra.dev",
		"deleted MutatingWebhookConfiguration nadra-controller", "deleted Secret nadra-system/nadra-webhook-tls", "deleted DeviceClass taken.dropin.nad.nadra.dev")

	f.Kubectl("-n", f.NS, "delete", "deploy/web", "--timeout=60s")
	f.Kubectl("-n", f.NS, "delete", "pods", "--all", "--timeout=60s")
	theirs := f.templateNames()
	printed, err = f.Uninstall(f.Ctx)
	f.Must(err)
	f.containsAll(printed, "deleted ResourceClaimTemplate dropin/"+web)
	if strings.Contains(printed, "kept") {
		f.Errorf("unused objects are kept:\n%s", printed)
	}
	theirs = slices.DeleteFunc(theirs, func(name string) bool { return strings.Contains(printed, "dropin/"+name) })
	if now := f.templateNames(); !slices.Equal(now, theirs) || len(now) != 1 {
		f.Errorf("templates %v are left, want only the one that is not nadra's", now)
	}
	if _, err := f.class("mine"); err != nil {
		f.Errorf("the handwritten class: %v", err)
	}
	if _, err := f.class("net"); !apierrors.IsNotFound(err) {
		f.Errorf("the class of net is still there: %v", err)
	}
	f.Kubectl("delete", "deviceclass", "mine.dropin.nad.nadra.dev")
	left := f.Kubectl("get", "deviceclasses,resourceclaimtemplates,secrets,mutatingwebhookconfigurations,validatingwebhookconfigurations",
		"-A", "-l", "app.kubernetes.io/managed-by=nadra-controller", "-o", "name")
	if left != "" {
		f.Errorf("objects of the controller are left:\n%s", left)
	}
}

func (f *fixture) containsAll(text string, wants ...string) {
	f.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			f.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
}
