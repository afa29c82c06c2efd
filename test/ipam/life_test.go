//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// killDrivers kills the driver on both nodes.
func (f *fixture) killDrivers() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		pid, err := lab.DriverPID(n)
		f.Must(err)
		_, err = n.Exec(f.Ctx, "kill", "-9", pid)
		f.Must(err)
	}
}

// driverKilled kills the driver while pods are being attached.
func driverKilled(t *testing.T) {
	f := setup(t, "wa-kill", inRange("kill", "10.157.0.0/24"))
	f.ApplyYAML(lab.Workload("Deployment", "kill", "replicas: 12", "kill", ""))
	f.Eventually(time.Minute, func(ctx context.Context) error {
		if kept, err := f.allocated(ctx); err != nil || len(kept) < 6 { // three pods, with a reservation each
			return fmt.Errorf("%d allocations: %w", len(kept), err)
		}
		return nil
	})
	f.killDrivers()
	f.pods("kill", 12, 2*time.Minute)
}

// reboot cuts the power of a node with pods. The same pods must run on it again, each with
// an address of its own.
func reboot(t *testing.T) {
	f := setup(t, "wa-reboot", inRange("reboot", "10.158.0.0/24"))
	f.ApplyYAML(lab.Workload("Deployment", "reboot", "replicas: 6", "reboot", ""))
	f.pods("reboot", 6, time.Minute)
	node := f.Cluster.Node(1)
	f.Must(node.Reboot(f.Ctx))
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		again := 0
		for _, p := range f.pods("reboot", 6, 2*time.Minute) {
			if p.Spec.NodeName != node.Name() {
				continue
			}
			if p.Status.ContainerStatuses[0].RestartCount == 0 {
				return fmt.Errorf("pod %s does not run again yet", p.Name)
			}
			again++
		}
		if again == 0 {
			return fmt.Errorf("no pod was on %s", node.Name())
		}
		return nil
	})
	for _, p := range f.pods("reboot", 6, time.Minute) {
		f.address(p, "net1")
	}
}

// check restarts the driver, which runs CHECK for all attachments. whereabouts does not
// implement CHECK and returns an error; nadra must not report that as a failure of the
// network.
func check(t *testing.T) {
	f := setup(t, "wa-check", inRange("check", "10.159.0.0/24"))
	f.ApplyYAML(lab.Workload("Deployment", "check", "replicas: 2", "check", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: check}}}]"))
	pods := f.pods("check", 2, time.Minute)
	f.killDrivers()
	for _, p := range pods {
		n := f.NodeOf(p)
		f.Eventually(time.Minute, func(ctx context.Context) error { return f.checked(ctx, n) })
		// The requested CHECK runs after the one at the start.
		f.Kubectl("annotate", "pod", p.Name, "nadra.dev/check=now")
		f.Eventually(time.Minute, func(ctx context.Context) error {
			events := strings.Join(f.Events(ctx, f.NS, p.Name), "\n")
			switch {
			case strings.Contains(events, reason.EventFailedCheckNetwork):
				f.Fatalf("CHECK of a plugin that has none is a failure: %s", events)
			case !strings.Contains(events, reason.EventCheckedNetwork):
				return fmt.Errorf("pod %s was not checked: %s", p.Name, events)
			}
			return nil
		})
		_, err := f.ClaimWhen(f.Ctx, p, func(claim *resourceapi.ResourceClaim) error {
			for _, d := range claim.Status.Devices {
				for _, c := range d.Conditions {
					if c.Type == "Ready" && c.Status == "True" {
						return nil
					}
				}
			}
			return fmt.Errorf("the network of claim %s is not Ready: %+v", claim.Name, claim.Status.Devices)
		})
		f.Must(err)
	}
}

// checks finds the driver's metric that counts CHECKs, if it is not 0.
var checks = regexp.MustCompile(`(?m)^nadra_cni_exec_duration_seconds_count\{[^}]*verb="CHECK"[^}]*\} ([1-9]\d*)`)

// checked returns an error unless the driver of a node has run a CHECK since its
// start.
func (f *fixture) checked(ctx context.Context, n *cluster.Node) error {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return f.Cluster.ControlPlane().Dial(ctx, network, address)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.IP()+":9078/metrics", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && !checks.Match(content) {
		err = fmt.Errorf("the driver of %s has run no CHECK", n.Name())
	}
	return err
}
