package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestBeyondALimit checks that a pod beyond a limit is refused with the code before any network is read
// or template created.
func TestBeyondALimit(t *testing.T) {
	for name, annotation := range map[string]string{
		"networks":                      strings.Repeat("lan,", v1alpha1.MaxNetworks) + "lan",
		"as many as fit into an object": strings.Repeat("a,", 128_000) + "a",
		"elements":                      "[" + strings.Repeat(`{"name":"lan"},`, v1alpha1.MaxNetworks) + `{"name":"lan"}]`,
		"depth":                         `[{"name":"lan","cni-args":{"k":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}]`,
		"a request":                     fmt.Sprintf(`[{"name":"lan","cni-args":{"k":%q}}]`, strings.Repeat("x", v1alpha1.MaxRequest)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
			_, message := handle(w, annotation)
			if reason.In(message) != reason.LimitExceeded || len(message) > 2<<10 {
				t.Errorf("got %d bytes: %.300s", len(message), message)
			}
			for _, r := range w.requests {
				if strings.HasPrefix(r, "create") || strings.Contains(r, "lan") {
					t.Errorf("the request %s", r)
				}
			}
		})
	}
}

// TestCallerLeaves checks that a request whose caller has left reads nothing and creates nothing.
func TestCallerLeaves(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := w.handler.Handle(ctx, creating(podWith("lan"), "Pod"))
	if r.Allowed || r.Result.Code != http.StatusInternalServerError || len(w.requests) > 0 {
		t.Errorf("got %+v after %v", r.Result, w.requests)
	}
}
