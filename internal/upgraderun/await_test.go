package upgraderun

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// An API server that restarts is waited for, and what is refused is not.
func TestPassingErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string // of the error in the end; empty: it goes on
	}{
		"restarting": {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, ""},
		"overloaded": {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), ""},
		"forbidden":  {apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")), "is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pod("p", "web"))
			w.runner.DrainTimeout = 10 * time.Second
			fail := 0
			w.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if fail--; fail >= 0 {
					return true, nil, tt.err
				}
				return false, nil, nil
			})
			w.runner.plan, w.runner.state = w.plan, upgrade.NewState()
			fail = 3
			err := w.runner.drain(t.Context(), "n1", &upgrade.NodeState{Way: upgrade.Forth})
			if tt.want == "" && (err != nil || len(w.evicted) != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, evicted %q", err, w.evicted)
			}
		})
	}
}
