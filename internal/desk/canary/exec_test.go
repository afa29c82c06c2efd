package canary

import (
	"crypto/fips140"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// channels of the protocol v5.channel.k8s.io, and the types of SPDY's streams.
const (
	stdout = 1
	stderr = 2
	status = 3
)

var streamTypes = map[byte]string{stdout: corev1.StreamTypeStdout, stderr: corev1.StreamTypeStderr, status: corev1.StreamTypeError}

// streaming starts an API server that answers exec with messages, by the protocol that the
// request asks for. Each message begins with the number of its channel.
func streaming(t *testing.T, messages ...string) (Exec, *http.Request) {
	t.Helper()
	var request http.Request
	overWebSocket := websocket.Server{
		Handshake: func(c *websocket.Config, _ *http.Request) error {
			c.Protocol = []string{"v5.channel.k8s.io"}
			return nil
		},
		Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			for _, m := range messages {
				if _, err := ws.Write([]byte(m)); err != nil {
					t.Error(err)
				}
			}
			if err := ws.WriteClose(1000); err != nil {
				t.Error(err)
			}
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = *r
		if strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
			answerSPDY(t, w, r, messages)
		} else {
			overWebSocket.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return execTo(t, server.URL), &request
}

// answerSPDY waits for the client's three streams, and writes each message to its own.
func answerSPDY(t *testing.T, w http.ResponseWriter, r *http.Request, messages []string) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		t.Error(err)
		return
	}
	opened := make(chan httpstream.Stream, len(streamTypes))
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if connection == nil {
		t.Error("the request was not upgraded")
		return
	}
	defer func() { _ = connection.Close() }()
	streams := map[string]httpstream.Stream{}
	for range streamTypes {
		s := <-opened
		streams[s.Headers().Get(corev1.StreamType)] = s
	}
	for _, m := range messages {
		if _, err := streams[streamTypes[m[0]]].Write([]byte(m[1:])); err != nil {
			t.Error(err)
		}
	}
	for _, s := range streams {
		_ = s.Close()
	}
	<-connection.CloseChan()
}

func execTo(t *testing.T, url string) Exec {
	t.Helper()
	config := &rest.Config{Host: url}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return NewExec(config, kube)
}

func message(channel byte, text string) string { return string(channel) + text }

var aPod = Pod{Namespace: "a", Name: "nadra-canary-x"}

func TestExec(t *testing.T) {
	exec, request := streaming(t, message(stdout, "half of "), message(stdout, "an answer\n"), message(status, `{"status":"Success"}`))
	got, err := exec(t.Context(), aPod, "/nadra-node", "canary", "inspect")
	if err != nil || string(got) != "half of an answer\n" {
		t.Errorf("%q, %v", got, err)
	}
	query := request.URL.Query()
	if request.URL.Path != "/api/v1/namespaces/a/pods/nadra-canary-x/exec" || query.Get("container") != container || !slices.Equal(query["command"], []string{"/nadra-node", "canary", "inspect"}) {
		t.Errorf("it requests %s", request.URL)
	}
}

// The error of a failed program has its output.
func TestExecFails(t *testing.T) {
	exec, _ := streaming(t, message(stderr, "no such flag\n"),
		message(status, `{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code","details":{"causes":[{"reason":"ExitCode","message":"2"}]}}`))
	_, err := exec(t.Context(), aPod, "/nadra-node", "canary", "inspect")
	if err == nil || !strings.Contains(err.Error(), "pod nadra-canary-x: ") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("the error is %v", err)
	}
}

// If WebSocket is refused, SPDY is tried; it is tried at once where SHA-1 is forbidden.
func TestExecFallsBack(t *testing.T) {
	var mu sync.Mutex
	var tried []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		tried = append(tried, r.Method+" "+strings.ToLower(r.Header.Get("Upgrade")))
		http.Error(w, "no right to create pods/exec", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	_, err := execTo(t, server.URL)(t.Context(), aPod, "/nadra-node", "canary", "inspect")
	if err == nil || !strings.Contains(err.Error(), "pod nadra-canary-x: ") {
		t.Errorf("the error is %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"GET websocket", "POST spdy/3.1"}
	if fips140.Enforced() {
		want = want[1:]
	}
	if !slices.Equal(tried, want) {
		t.Errorf("it tried %q", tried)
	}
}
