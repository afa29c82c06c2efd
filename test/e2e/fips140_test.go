//go:build e2e

package e2e

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestFIPS140 checks that the running programs accept approved cryptography only, if NADRA_FIPS140 is 1;
// and that otherwise they accept X25519, which is not approved. All other tests of the suite then show that what nadra does works with it.
func TestFIPS140(t *testing.T) {
	f := setup(t, "fips140")
	only := lab.FIPS140()
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))

	for _, command := range []string{"nadra-node", "nadra-controlle"} { // the kernel keeps 15 characters
		pids := strings.Fields(f.processes(command))
		if len(pids) == 0 {
			t.Errorf("no process %s runs", command)
		}
		for _, pid := range pids {
			environment := strings.Split(f.sh("cat /proc/"+pid+"/environ"), "\x00")
			if slices.Contains(environment, "GODEBUG=fips140=only") != only {
				t.Errorf("%s has the environment %q", command, environment)
			}
		}
	}
	t.Run("the webhook accepts approved key exchanges only", func(t *testing.T) {
		for _, address := range f.webhooks() {
			if err := f.handshake(address, tls.CurveP256); err != nil {
				t.Errorf("P-256 is refused: %v", err)
			}
			if err := f.handshake(address, tls.X25519); (err != nil) != only {
				t.Errorf("X25519: %v", err)
			}
		}
	})
	t.Run("kubectl nadra accepts approved key exchanges only", func(t *testing.T) {
		for curve, refused := range map[tls.CurveID]bool{tls.CurveP256: false, tls.X25519: only} {
			if answered := f.clientReaches(curve); answered == refused {
				t.Errorf("it has sent a request to a server with %s only: %t", curve, answered)
			}
		}
	})
}

// webhooks returns the addresses of the webhook's replicas.
func (f *fixture) webhooks() []string {
	f.Helper()
	slices, err := f.Kube.DiscoveryV1().EndpointSlices(lab.ControllerNamespace).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	var out []string
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			out = append(out, net.JoinHostPort(e.Addresses[0], "9443"))
		}
	}
	if len(out) == 0 {
		f.Fatal("the webhook has no endpoints")
	}
	return out
}

// handshake connects by TLS, with one key exchange.
func (f *fixture) handshake(address string, curve tls.CurveID) error {
	f.Helper()
	conn, err := f.Cluster.ControlPlane().Dial(f.Ctx, "tcp", address)
	f.Must(err)
	defer conn.Close()
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{curve}}).HandshakeContext(f.Ctx) //nolint:gosec // only the key exchange matters
}

// clientReaches runs kubectl nadra against an API server that has one key exchange, and reports
// whether it got a request.
func (f *fixture) clientReaches(curve tls.CurveID) bool {
	f.Helper()
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.NotFound(w, r)
	}))
	f.Must(f.node.DoInNetNS("/proc/1/ns/net", func() (err error) {
		f.Must(server.Listener.Close())
		server.Listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	server.TLS = &tls.Config{CurvePreferences: []tls.CurveID{curve}}
	server.StartTLS()
	defer server.Close()
	cmd := f.node.Command(f.Ctx, lab.Built("kubectl-nadra"), "get", "networks", "--server", server.URL, "--insecure-skip-tls-verify", "--token", "none")
	if err := f.node.Run(cmd); err != nil && !errors.As(err, new(*exec.ExitError)) {
		f.Fatal(err)
	}
	return requests.Load() > 0
}
