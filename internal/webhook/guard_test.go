package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// podAt returns a pod with addresses.
func podAt(namespace string, phase corev1.PodPhase, host bool, ips ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.NewReplacer(".", "-", ":", "-").Replace("p" + ips[0])}}
	p.Spec.HostNetwork, p.Status.Phase, p.Status.PodIP = host, phase, ips[0]
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

// podsAt returns an API server that has pods, selects them by their first address as the real one does,
// and counts the lists.
func podsAt(t *testing.T, lists *atomic.Int32, fails *error, pods ...client.Object) client.WithWatch {
	t.Helper()
	index := func(o client.Object) []string { return []string{o.(*corev1.Pod).Status.PodIP} }
	c := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(pods...).WithStatusSubresource().WithIndex(&corev1.Pod{}, "status.podIP", index).Build()
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		lists.Add(1)
		if *fails != nil {
			return *fails
		}
		return c.List(ctx, list, opts...)
	}})
}

func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var fails error
		api := podsAt(t, &lists, &fails,
			podAt("shop", corev1.PodRunning, false, "10.1.0.5", "fd00::5"),
			podAt("shop", corev1.PodPending, false, "10.1.0.6"),
			podAt("shop", corev1.PodSucceeded, false, "10.1.0.7"),
			podAt("kube-system", corev1.PodRunning, false, "10.1.0.8"),
			podAt("shop", corev1.PodRunning, true, "192.0.2.1"),
			podAt("shop", corev1.PodFailed, false, "192.0.2.2"))
		c := newCallers(api, []string{"kube-system"}, "10.1.0.1")
		for from, want := range map[string]bool{
			"10.1.0.5": false, "10.1.0.6": false, "10.1.0.7": true, "10.1.0.8": true,
			"192.0.2.1": true, "192.0.2.2": true, "192.0.2.3": true, "127.0.0.1": true,
			// The API server does not find a pod by these.
			"fd00::5": false, "fe80::1%eth0": false,
		} {
			for range 3 {
				if got := c.allow(t.Context(), netip.MustParseAddr(from)); got != want {
					t.Errorf("%s is allowed: %v, want %v", from, got, want)
				}
			}
		}
		if n := lists.Load(); n != 7 {
			t.Errorf("%d lists for 7 addresses", n)
		}
		six := newCallers(api, nil, "fd00::1")
		for from, want := range map[string]bool{"fd00::9": true, "fe80::1%eth0": false, "10.1.0.9": false} {
			if got := six.allow(t.Context(), netip.MustParseAddr(from)); got != want {
				t.Errorf("%s is allowed on IPv6: %v, want %v", from, got, want)
			}
		}
		for _, c := range []*callers{newCallers(api, []string{"*"}, ""), newCallers(api, []string{"shop"}, "")} {
			if !c.allow(t.Context(), netip.MustParseAddr("10.1.0.5")) {
				t.Errorf("%v: a pod is refused", c.namespaces)
			}
		}
	})
}

// TestCallerIsLate checks that an address is asked for again soon after it is first seen, because a pod
// may call before its status has it, then rarely; and that no known caller waits for the answer.
func TestCallerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var fails error
		api := podsAt(t, &lists, &fails)
		c := newCallers(api, nil, "")
		pod, server := netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("192.0.2.1")
		if !c.allow(t.Context(), pod) || !c.allow(t.Context(), server) {
			t.Fatal("an unknown address is refused")
		}
		if err := api.Create(t.Context(), podAt("shop", corev1.PodRunning, false, "10.1.0.5")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(callerNew + time.Second)
		c.allow(t.Context(), pod)
		c.allow(t.Context(), server)
		synctest.Wait()
		if c.allow(t.Context(), pod) || !c.allow(t.Context(), server) {
			t.Error("the pod is allowed, or the API server is not")
		}
		lists.Store(0)
		time.Sleep(callerKnown - time.Second)
		c.allow(t.Context(), server)
		if n := lists.Load(); n != 0 {
			t.Errorf("%d lists for a known address", n)
		}
		slow := interceptor.NewClient(api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			time.Sleep(callerWait / 2)
			return c.List(ctx, list, opts...)
		}})
		c.live = slow
		time.Sleep(callerKnown)
		began := time.Now()
		if !c.allow(t.Context(), server) || time.Since(began) > 0 {
			t.Errorf("a known address waits %s", time.Since(began))
		}
		if c.allow(t.Context(), pod) || time.Since(began) == 0 {
			t.Error("a pod is allowed before the answer, or the answer is an old one")
		}
		// Not to know is not to refuse.
		synctest.Wait()
		fails = errors.New("etcd is away")
		time.Sleep(2 * callerKnown)
		if !c.allow(t.Context(), pod) || !c.allow(t.Context(), server) {
			t.Error("an address is refused while the API server does not answer")
		}
		synctest.Wait()
	})
}

// request returns a POST from an address, with headers that claim another one.
func request(from string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, MutatePodsPath, body)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 4711).String()
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.Header.Set("X-Real-Ip", "192.0.2.1")
	return r
}

// deadlines is a response writer that accepts deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

func TestGuard(t *testing.T) {
	var lists atomic.Int32
	var fails error
	api := podsAt(t, &lists, &fails, podAt("shop", corev1.PodRunning, false, "10.1.0.5"))
	asked := 0
	serve := func(o Options, r *http.Request) int {
		t.Helper()
		w := deadlines{httptest.NewRecorder()}
		newGuard(api, o).protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			}
		})).ServeHTTP(w, r)
		if w.Code == http.StatusForbidden && strings.TrimSpace(w.Body.String()) != http.StatusText(http.StatusForbidden) {
			t.Errorf("a refusal says more: %s", w.Body)
		}
		return w.Code
	}
	if code := serve(Options{}, request("10.1.0.5", nil)); code != http.StatusForbidden || asked != 0 {
		t.Errorf("a pod gets %d, and the handler was asked %d times", code, asked)
	}
	if code := serve(Options{}, request("192.0.2.1", nil)); code != http.StatusOK || asked != 1 {
		t.Errorf("an API server gets %d", code)
	}
	if code := serve(Options{}, request("192.0.2.1", bytes.NewReader(make([]byte, maxBody+1)))); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large request gets %d", code)
	}
	asked = 0
	named := Options{ClientNames: []string{"kube-apiserver"}}
	for name, want := range map[string]int{"": http.StatusForbidden, "kubelet": http.StatusForbidden, "kube-apiserver": http.StatusOK, "dns:kube-apiserver": http.StatusOK} {
		r := request("10.1.0.5", nil)
		r.TLS = &tls.ConnectionState{}
		if name != "" {
			c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{strings.TrimPrefix(name, "dns:")}}
			r.TLS.PeerCertificates, r.TLS.VerifiedChains = []*x509.Certificate{c}, [][]*x509.Certificate{{c}}
		}
		if code := serve(named, r); code != want {
			t.Errorf("a certificate for %q gets %d, want %d", name, code, want)
		}
	}
	if asked != 2 {
		t.Errorf("the handler was asked %d times, want twice", asked)
	}
	unverified := request("192.0.2.1", nil)
	unverified.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "kube-apiserver"}}}}
	if code := serve(named, unverified); code != http.StatusForbidden {
		t.Errorf("a certificate that is not verified gets %d", code)
	}
}

// TestSlots checks that an address cannot hold more than its requests, that another has its own, that a
// request ends when its caller leaves, and that nothing remains of them.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{sources: map[netip.Addr]*source{}}
		one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		ctx, leave := context.WithCancel(t.Context())
		var releases []func()
		for range maxRunning {
			release, ok := s.take(ctx, one)
			if !ok {
				t.Fatal("a request does not run")
			}
			releases = append(releases, release)
		}
		left := make(chan bool, maxQueued)
		for range maxQueued {
			go func() {
				_, ok := s.take(ctx, one)
				left <- !ok
			}()
		}
		synctest.Wait()
		if _, ok := s.take(ctx, one); ok {
			t.Error("more than the queued requests wait")
		}
		release, ok := s.take(ctx, other)
		if !ok {
			t.Fatal("another address waits")
		}
		leave()
		for range maxQueued {
			if !<-left {
				t.Error("a request runs whose caller has left")
			}
		}
		for _, release := range append(releases, release) {
			release()
		}
		if len(s.sources) != 0 {
			t.Errorf("%d addresses remain", len(s.sources))
		}
	})
}
