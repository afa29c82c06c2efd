package canary

import (
	"bytes"
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/nadra-dev/nadra/internal/words"
)

// maxOutput limits the bytes that are kept of a command's output: the node on which it runs may send anything.
const maxOutput = 1 << 20

// Exec runs a command in a canary and returns its output.
type Exec func(ctx context.Context, pod Pod, command ...string) ([]byte, error)

// NewExec returns an Exec that uses the pod's subresource exec, over WebSocket or, if that
// is refused, SPDY. A program that accepts approved cryptography only uses SPDY at once:
// WebSocket's handshake has SHA-1.
func NewExec(config *rest.Config, kube kubernetes.Interface) Exec {
	return func(ctx context.Context, pod Pod, command ...string) ([]byte, error) {
		url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
		executor, err := newExecutor(config, url)
		if err != nil {
			return nil, fmt.Errorf("preparing to run %s: %w", command[0], err)
		}
		out, errs := words.Buffer{Limit: maxOutput}, words.Buffer{Limit: maxOutput}
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
		var ended exec.CodeExitError
		switch {
		case errors.As(err, &ended):
			return nil, fmt.Errorf("running %s in pod %s: exit code %d: %s", strings.Join(command, " "), pod.Name, ended.Code, bytes.TrimSpace(errs.Kept))
		case err != nil:
			return nil, fmt.Errorf("running %s in pod %s: %w", command[0], pod.Name, err)
		case out.Cut:
			return nil, fmt.Errorf("running %s in pod %s: it printed more than %d bytes", command[0], pod.Name, maxOutput)
		}
		return out.Kept, nil
	}
}

// newExecutor returns what opens the stream, by the protocols that NewExec names.
func newExecutor(config *rest.Config, url *url.URL) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil || fips140.Enforced() {
		return spdy, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
