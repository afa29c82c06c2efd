//go:build e2e

package kubevirt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm"
)

// guestLimit is how long the guest may take. Its processor is emulated, and boots in seconds on an idle machine.
const guestLimit = 3 * time.Minute

// TestGuest boots a guest on a machine's network: a real kernel with the MAC of the machine's manifest, on the tap
// that virt-handler's own code has made of the launcher pod's interface. It must reach another pod of the network.
func TestGuest(t *testing.T) {
	t.Parallel()
	guest := buildGuest(t)
	bridge := `{"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-vm-guest"%s}`
	f := setup(t, "vm-guest", "guests", fmt.Sprintf(bridge, ""),
		"hosts", fmt.Sprintf(bridge, `, "ipam": {"type": "static", "addresses": [{"address": "10.78.0.1/24"}]}`))
	const mac = "02:00:00:00:04:01"
	p := f.start("db", nic{name: "a", network: "guests", mac: mac})
	tap := strings.Replace(f.podInterface("db", "a"), "pod", "tap", 1)
	f.bind("db", p)
	neighbour := lab.Pod(f.NS, "neighbour", "")
	neighbour.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "hosts"}
	neighbour.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.Spec.NodeName}
	neighbour.Spec.ResourceClaims, neighbour.Spec.Containers[0].Resources = nil, corev1.ResourceRequirements{}
	_, err := f.CreatePod(f.Ctx, neighbour)
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "neighbour", waitLimit)
	f.Must(err)

	console := filepath.Join(runFolder, "guest-console")
	ctx, cancel := context.WithTimeout(f.Ctx, guestLimit)
	defer cancel()
	n := f.NodeOf(p)
	s, err := n.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	command := n.Command(ctx, "nsenter", append([]string{"--net=" + s.NetNS},
		guest.Command(tap, mac, console, "lane.address=10.78.0.2/24", "lane.neighbour=10.78.0.1")...)...)
	var messages bytes.Buffer
	command.Stdout, command.Stderr = &messages, &messages
	err = n.Run(command)
	printed, _ := os.ReadFile(console)
	if want := "guest: pings=5 answers=5 error=<nil>"; err != nil || !strings.Contains(string(printed), want) {
		t.Errorf("the guest printed no %q: %v\n%s\n%s", want, err, messages.String(), printed)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "neighbour"))
}

// buildGuest builds the guest.
func buildGuest(t *testing.T) vm.SmallGuest {
	t.Helper()
	init, err := cluster.Program{
		Suite: "kubevirt", Name: "guest", Dir: ".", Package: "./test/kubevirt/guest", Sources: []string{"test/kubevirt/guest/*.go"},
	}.Build(interrupted, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := vm.BuildSmallGuest(interrupted, runFolder, init, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return guest
}
