//go:build e2e

package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// anonymousRequests is the number of requests of the row about writes.
	anonymousRequests = 300
	// floodTime is how long the flood of anonymous requests takes, and floodRate their number in a second.
	floodTime, floodRate = 8 * time.Second, 300
	// floodPods is the number of pods that another tenant creates before and during the flood.
	floodPods = 30
)

// TestAttackWebhook sends admission requests to the webhook without credentials. Nothing may be written, a
// caller on the pod network must not learn which networks exist, and pods of others must be admitted in
// their usual time.
func TestAttackWebhook(t *testing.T) {
	a := setup(t, "hook")
	_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, plain(a.NS, "curl"), metav1.CreateOptions{})
	a.Must(err)
	pod, err := a.Ready(a.Ctx, a.NS, "curl", time.Minute)
	a.Must(err)
	node := a.NodeOf(pod)
	sandbox, err := node.PodSandbox(a.Ctx, string(pod.UID))
	a.Must(err)
	fromPod := clientFrom(func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = node.DoInNetNS(sandbox.NetNS, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	})
	url := a.webhook()

	for i, tt := range []struct {
		from, namespace string
		client          *http.Client
	}{
		{"a pod", metav1.NamespaceSystem, fromPod},
		{"a pod", a.NS, fromPod},
		{"the host", metav1.NamespaceSystem, clientFrom(node.Dial)},
	} {
		a.try(fmt.Sprintf("%d requests from %s for namespace %s", anonymousRequests, tt.from, tt.namespace), func(a *attempt) {
			before := a.templates()
			var last string
			for n := range anonymousRequests {
				last = review(a.Ctx, tt.client, url, a.asking(tt.namespace, fmt.Sprintf("%s/n@i%d-%d", a.NS, i, n)))
			}
			a.Logf("the last answer: %.300s", last)
			if made := len(a.templates()) - len(before); made > 0 {
				a.harmed("%d ResourceClaimTemplates were created", made)
			}
		})
	}
	a.try("a caller on the pod network asks which NADs exist", func(a *attempt) {
		// Names of the same length, so that only the answer can differ.
		there := review(a.Ctx, fromPod, url, a.asking("default", a.NS+"/n"))
		if !strings.HasPrefix(there, "failed: 403 ") {
			a.harmed("the webhook does not refuse to answer: %.300s", there)
		}
		absent := strings.ReplaceAll(review(a.Ctx, fromPod, url, a.asking("default", a.NS+"/m")), a.NS+"/m", a.NS+"/n")
		if there != absent {
			a.harmed("the answer for a NAD, of %d bytes, differs from that for none: %.300s", len(there), absent)
		}
	})
	a.try("a pod that a quota refuses", func(a *attempt) {
		quotas := a.Kube.CoreV1().ResourceQuotas(a.NS)
		_, err := quotas.Create(a.Ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")},
		}}, metav1.CreateOptions{})
		a.Must(err)
		defer func() { a.Must(quotas.Delete(a.Ctx, "full", metav1.DeleteOptions{})) }()
		a.Eventually(30*time.Second, func(ctx context.Context) error {
			q, err := quotas.Get(ctx, "full", metav1.GetOptions{})
			if err == nil && len(q.Status.Hard) == 0 {
				err = fmt.Errorf("the quota is not in force")
			}
			return err
		})
		before := a.templates()
		_, err = a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, a.pod("refused", "n@quota"), metav1.CreateOptions{})
		a.refused(err, "a pod over the quota")
		if err := a.throughout(3*time.Second, func(context.Context) error {
			if made := len(a.templates()) - len(before); made > 0 {
				return fmt.Errorf("%d ResourceClaimTemplates are left of a pod that was refused", made)
			}
			return nil
		}); err != nil {
			a.harmed("%v", err)
		}
	})
	a.try(fmt.Sprintf("%d requests a second while others create pods", floodRate), func(a *attempt) {
		usual := a.admit("usual")
		ctx, stop := context.WithTimeout(a.Ctx, floodTime)
		defer stop()
		before := a.templates()
		done := make(chan int, 1)
		go func() { done <- a.flood(ctx, fromPod, url) }()
		flooded := a.admit("flooded")
		sent := <-done
		ratio := float64(flooded) / float64(usual)
		a.Logf("admission: usually %s, beside %d requests in %s %s, ratio %.1f", usual, sent, floodTime, flooded, ratio)
		if flooded > 5*time.Second || ratio > 3 && flooded > 300*time.Millisecond {
			a.harmed("a pod is admitted in %s, usually in %s", flooded, usual)
		}
		// The pods of the other tenant have one template.
		if made := len(a.templates()) - len(before); made > 1 {
			a.harmed("%d ResourceClaimTemplates were created", made)
		}
	})
}

// clientFrom returns a client of HTTPS that has no credentials and trusts any server.
func clientFrom(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// webhook returns the address of a replica's webhook for pods.
func (a *attempt) webhook() string {
	a.Helper()
	for _, p := range a.pods(lab.ControllerNamespace) {
		if p.Labels["app.kubernetes.io/name"] == "nadra-controller" && lab.IsReady(&p) {
			return "https://" + net.JoinHostPort(p.Status.PodIP, "9443") + "/mutate-pods"
		}
	}
	a.Fatal("no controller is ready")
	return ""
}

// asking returns an AdmissionReview of a new pod that requests networks, as the API server would send it.
func (a *attempt) asking(namespace, networks string) string {
	a.Helper()
	p := plain(namespace, "made-up")
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: networks}
	p.Labels = map[string]string{api.OwnerLabel: api.OwnerNadra}
	object, err := json.Marshal(p)
	a.Must(err)
	out, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "made-up", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name: p.Name, Namespace: namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		},
	})
	a.Must(err)
	return string(out)
}

// review sends a request and returns the answer, or how it failed.
func review(ctx context.Context, client *http.Client, url, request string) string {
	text, err := body(ctx, client, http.MethodPost, url, request)
	if err != nil {
		return "failed: " + err.Error()
	}
	return text
}

// body sends a request and returns the body of the answer. The status of a refusal is part of the error.
func body(ctx context.Context, client *http.Client, method, url, content string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(content)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", response.Status, text)
	}
	return string(text), err
}

// templates lists the ResourceClaimTemplates of all namespaces.
func (a *attempt) templates() []string {
	a.Helper()
	list, err := a.Kube.ResourceV1().ResourceClaimTemplates("").List(a.Ctx, metav1.ListOptions{})
	a.Must(err)
	var names []string
	for _, t := range list.Items {
		names = append(names, t.Namespace+"/"+t.Name)
	}
	return names
}

// admit creates pods of the namespace that request a network, waits for none of them, and returns the
// median of the time that their admission took.
func (a *attempt) admit(prefix string) time.Duration {
	a.Helper()
	var took []time.Duration
	for i := range floodPods {
		p := a.pod(fmt.Sprintf("%s-%d", prefix, i), "n")
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}} // admission is what counts
		began := time.Now()
		_, err := a.CreatePod(a.Ctx, p)
		a.Must(err)
		took = append(took, time.Since(began))
	}
	return median(took)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2].Round(time.Millisecond)
}

// flood sends anonymous requests, each for other networks, until ctx ends. It returns their number.
func (a *attempt) flood(ctx context.Context, client *http.Client, url string) (sent int) {
	slots := make(chan struct{}, 64)
	tick := time.NewTicker(time.Second / floodRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
			request := a.asking("default", fmt.Sprintf("%s/n@f%d", a.NS, sent))
			go func() { _ = review(ctx, client, url, request); <-slots }()
			sent++
		default: // the webhook answers slowly
		}
	}
}
