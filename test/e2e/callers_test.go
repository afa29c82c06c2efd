//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// TestControllerCallers calls the webhooks as programs that are not an API server do.
func TestControllerCallers(t *testing.T) {
	f := setup(t, "callers")
	f.bridge("br-drop")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.nad("net", dropInConf)
	f.Must(f.Published(f.Ctx, "callers/net"))
	f.Must(f.CreateNAD(f.Ctx, f.NS, "other", dropInConf))

	f.part("a pod is refused", (*fixture).podCalls)
	f.part("a flood writes nothing and delays no pod", (*fixture).flood)
	f.part("a pod that a quota refuses leaves nothing", (*fixture).quotaRefuses)
	f.part("a pod that is changed after its admission gets no template", (*fixture).changedAfterwards)
	f.part("with client certificates, only an API server is answered", (*fixture).clientCertificates)
}

// review returns a request of an API server for the admission of a pod.
func review(namespace, networks string) []byte {
	pod, err := json.Marshal(asking(namespace, "forged", networks))
	if err != nil {
		panic(err)
	}
	r := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: namespace, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Object: runtime.RawExtension{Raw: pod},
	}}
	r.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return text
}

// call sends a request without credentials from a network namespace of the node.
func (f *fixture) call(netns, address string, body []byte) (code int, answer string, err error) {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = f.node.DoInNetNS(netns, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // as curl -k
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("https://"+address+"/mutate-pods", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// hostNetNS is the host's network namespace, in the node.
const hostNetNS = "/proc/1/ns/net"

func (f *fixture) podCalls() {
	plain, err := f.CreatePod(f.Ctx, asking(f.NS, "curl", ""))
	f.Must(err)
	plain, err = f.Ready(f.Ctx, f.NS, plain.Name, time.Minute)
	f.Must(err)
	netns := f.sandboxNetNS(plain)
	for _, address := range f.webhooks() {
		for _, networks := range []string{"callers/net", "callers/nowhere"} {
			code, answer, err := f.call(netns, address, review("kube-system", networks))
			if err != nil || code != http.StatusForbidden || strings.TrimSpace(answer) != "Forbidden" {
				f.Errorf("a pod that asks %s for %s gets %d %s, %v", address, networks, code, answer, err)
			}
		}
	}
	f.noTemplates("kube-system")
}

func (f *fixture) noTemplates(namespace string) {
	f.Helper()
	list, err := f.Kube.ResourceV1().ResourceClaimTemplates(namespace).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	if len(list.Items) > 0 {
		f.Errorf("%d templates are in namespace %s, the first is %s", len(list.Items), namespace, list.Items[0].Name)
	}
}

// The flood has this many requests a second, for floodLasts or the duration of NADRA_FLOOD.
const (
	floodRate  = 300
	floodLasts = 10 * time.Second
)

// flood sends requests from the host's network, which is not refused, while pods are created.
func (f *fixture) flood() {
	lasts := floodLasts
	if text := os.Getenv("NADRA_FLOOD"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		f.Must(err)
	}
	usual, before := f.admissionTime(40), f.controllerMemory()
	addresses := f.webhooks()
	var mu sync.Mutex
	var senders sync.WaitGroup
	codes := map[int]int{}
	ends := time.NewTimer(lasts)
	ticks := time.NewTicker(time.Second / floodRate)
	defer ticks.Stop()
	during := make(chan time.Duration, 1)
	go func() { during <- f.admissionTime(40) }()
	for i, running := 0, true; running; i++ {
		select {
		case <-ends.C:
			running = false
		case <-ticks.C:
			senders.Go(func() {
				networks := fmt.Sprintf("callers/net@n%d", i)
				if i%2 == 0 {
					networks = fmt.Sprintf("callers/nowhere-%d", i)
				}
				code, _, err := f.call(hostNetNS, addresses[i%len(addresses)], review("kube-system", networks))
				mu.Lock()
				defer mu.Unlock()
				if codes[code]++; err != nil && codes[code] == 1 {
					f.Log(err)
				}
			})
		}
	}
	senders.Wait()
	took, after := <-during, f.controllerMemory()
	f.Logf("flood: answers=%v median-admission=%s before=%s ratio=%.2f memory-before-MiB=%d after-MiB=%d", codes, took.Round(time.Millisecond/10), usual.Round(time.Millisecond/10),
		float64(took)/float64(usual), before>>20, after>>20)
	f.noTemplates("kube-system")
	if codes[http.StatusOK] == 0 || took > max(5*usual, 250*time.Millisecond) || after > before+64<<20 {
		f.Errorf("the flood had an effect: answers %v, pods are admitted in %s (before: %s), memory %d (before: %d)", codes, took, usual, after, before)
	}
}

// admissionTime returns the median time in which the API server admits a pod.
func (f *fixture) admissionTime(pods int) time.Duration {
	var took []time.Duration
	for i := range pods {
		began := time.Now()
		if _, err := f.dry(asking(f.NS, fmt.Sprintf("dry-%d", i), "net")); err != nil {
			f.Error(err)
		}
		took = append(took, time.Since(began))
		time.Sleep(50 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// controllerMemory returns the resident memory of the largest replica.
func (f *fixture) controllerMemory() (most int) {
	f.Helper()
	for _, pid := range strings.Fields(f.processes("nadra-controlle")) {
		kib, err := strconv.Atoi(strings.TrimSpace(f.sh(`awk '/^VmRSS/ {print $2}' /proc/` + pid + `/status`)))
		f.Must(err)
		most = max(most, kib<<10)
	}
	return most
}

func (f *fixture) quotaRefuses() {
	f.Must(f.Apply(f.Ctx, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: callers}, spec: {hard: {pods: 0}}}`))
	f.Eventually(time.Minute, func(context.Context) error { // the API server may see the quota late
		_, err := f.dry(asking(f.NS, "quota", "net@quota"))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("a pod beyond the quota: %w", err)
		}
		return nil
	})
	if _, err := f.CreatePod(f.Ctx, asking(f.NS, "quota", "net@quota")); !apierrors.IsForbidden(err) {
		f.Errorf("a pod beyond the quota: %v", err)
	}
	f.Kubectl("-n", f.NS, "delete", "resourcequota", "none")
	f.noTemplates(f.NS)
}

func (f *fixture) changedAfterwards() {
	pod := asking(f.NS, "gated", "net@gated")
	pod, err := f.dry(pod)
	f.Must(err)
	// A pod that refers to the template by hand, with other networks.
	name := template(pod)
	pod = asking(f.NS, "gated", "other@gated")
	pod.Spec.NodeSelector = map[string]string{"nowhere": "at-all"}
	pod, err = f.CreatePod(f.Ctx, pod)
	f.Must(err)
	own := template(pod)
	f.hasTemplate(own, true)
	f.Must(f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).Delete(f.Ctx, own, metav1.DeleteOptions{}))
	f.hasTemplate(own, true)
	f.Kubectl("-n", f.NS, "annotate", "--overwrite", "pod", "gated", "k8s.v1.cni.cncf.io/networks=net@gated")
	f.deleteTemplate(own)
	f.Eventually(time.Minute, func(context.Context) error {
		return contains("the Events of the changed pod", strings.Join(f.Events(f.Ctx, f.NS, "gated"), "\n"), []string{reason.EventTemplateMissing, own})
	})
	for _, t := range []string{own, name} {
		if slices.Contains(f.templateNames(), t) {
			f.Errorf("template %s of a changed pod was created", t)
		}
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "gated"))
}

// clientCertificates has the controller verify the certificate that the lab's API server presents, which
// is its own authority and that of service accounts.
func (f *fixture) clientCertificates() {
	const authority = "--webhook-client-ca=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
	f.Must(f.InstallController(f.Ctx, authority, "--webhook-client-name=kubernetes.default.svc"))
	f.Eventually(time.Minute, func(context.Context) error {
		_, err := f.dry(asking(f.NS, "by-certificate", "net"))
		return err
	})
	f.Eventually(time.Minute, func(context.Context) error { // the replicas before may not have ended
		for _, address := range f.webhooks() {
			code, _, err := f.call(hostNetNS, address, review("kube-system", "callers/net"))
			if err != nil {
				return err
			}
			if code != http.StatusForbidden {
				return fmt.Errorf("a caller without a certificate gets %d from %s", code, address)
			}
		}
		return nil
	})
	f.Must(f.InstallController(f.Ctx, authority, "--webhook-client-name=somebody-else"))
	f.Eventually(time.Minute, func(context.Context) error {
		var pod *corev1.Pod
		pod, err := f.dry(asking(f.NS, "by-certificate", "net"))
		if err == nil {
			return fmt.Errorf("pod %s was admitted, though the API server's certificate is for another name", pod.Name)
		}
		return contains("the refusal", err.Error(), []string{"pods.nadra.dev"})
	})
}
