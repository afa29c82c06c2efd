package canary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Exec runs a command in a canary and returns its output.
type Exec func(ctx context.Context, pod Pod, command ...string) ([]byte, error)

// NewExec returns an Exec that uses the pod's subresource exec, over WebSocket or, if that
// is refused, SPDY.
func NewExec(config *rest.Config, kube kubernetes.Interface) Exec {
	return func(ctx context.Context, pod Pod, command ...string) ([]byte, error) {
		url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
		socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
		if err != nil {
			return nil, fmt.Errorf("preparing to run %s: %w", command[0], err)
		}
		spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
		if err != nil {
			return nil, fmt.Errorf("preparing to run %s: %w", command[0], err)
		}
		executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return nil, fmt.Errorf("preparing to run %s: %w", command[0], err)
		}
		var out, errs bytes.Buffer
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
		var ended exec.CodeExitError
		switch {
		case errors.As(err, &ended):
			return nil, fmt.Errorf("running %s in pod %s: exit code %d: %s", strings.Join(command, " "), pod.Name, ended.Code, bytes.TrimSpace(errs.Bytes()))
		case err != nil:
			return nil, fmt.Errorf("running %s in pod %s: %w", command[0], pod.Name, err)
		}
		return out.Bytes(), nil
	}
}
