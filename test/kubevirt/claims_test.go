//go:build e2e

package kubevirt

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestNetworkByClaim runs a machine whose network is a request of a claim (KubeVirt's enhancement 183), and migrates
// it. KubeVirt asks for neither a MAC nor the name of the interface, so the claim has them. The target's launcher pod
// has a claim of its own. No network goes when virt-controller empties the annotation of a running pod. virt-launcher's code finds and understands the file about the request's device.
func TestNetworkByClaim(t *testing.T) {
	f := setup(t, "vm-claim", "lan", macvlan)
	remove, err := lab.AddDriverArgs(f.Ctx, f.Lab, "--device-metadata")
	f.Must(err)
	t.Cleanup(func() { f.Must(remove(interrupted)) })
	const mac = "02:00:00:00:05:01"
	f.ApplyYAML(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: networks}
spec:
  spec:
    devices:
      requests: [{name: lan, exactly: {deviceClassName: lan.` + f.NS + `.nad.nadra.dev}}]
      config:
        - requests: [lan]
          opaque:
            driver: net.nadra.dev
            parameters: {apiVersion: nadra.dev/v1alpha1, kind: AttachmentConfig, interface: data0, mac: "` + mac + `"}`)
	byClaim := nic{name: "lan", claim: "networks", request: "lan", binding: "claimed"}
	before := f.start("db", byClaim)
	f.checkClaimed(before, mac)
	if found := f.devices("db", before); !strings.Contains(found, "pciBusID not found") {
		t.Errorf("virt-launcher says of the device %q, want that the file names no PCI address: the network has none", found)
	}
	// virt-controller knows of no network for the annotation that nadra's webhook has written, and empties it.
	f.Eventually(waitLimit, func(context.Context) error {
		if text := f.pod(before.Name).Annotations["k8s.v1.cni.cncf.io/networks"]; text != "" {
			return fmt.Errorf("the networks annotation of pod %s is %q", before.Name, text)
		}
		return nil
	})
	f.ApplyYAML("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: {name: move}, spec: {vmiName: db}}")
	f.migrated("db", func(source, target string) {
		s, d := f.pod(source), f.pod(target)
		f.checkClaimed(s, mac)
		f.checkClaimed(d, mac)
		if s, d := claimOf(s), claimOf(d); s == "" || s == d {
			t.Errorf("the launcher pods have claims %q and %q, want one each", s, d)
		}
	})
	f.freed(before)
	f.checkClaimed(f.launcher("db"), mac)
	if err := f.tryCreate("mixed", byClaim, nic{name: "wan", network: "lan"}); err == nil || !strings.Contains(err.Error(), "mixing Multus and DRA") {
		t.Errorf("virt-api admits a network by claim beside one of Multus: %v", err)
	}
}

// checkClaimed checks a launcher pod with the claim's network: its interface, and that the container of the guest
// refers to the request.
func (f *fixture) checkClaimed(p *corev1.Pod, mac string) {
	f.Helper()
	if l := f.links(p)["data0"]; l.Info.Kind != "macvlan" || l.Address != mac {
		f.Errorf("interface data0 of pod %s is %+v, want a macvlan with MAC %s", p.Name, l, mac)
	}
	want := corev1.ResourceClaim{Name: "networks", Request: "lan"}
	for _, c := range p.Spec.Containers {
		if c.Name == "compute" && (len(c.Resources.Claims) != 1 || c.Resources.Claims[0] != want) {
			f.Errorf("container compute of pod %s refers to claims %v, want %v", p.Name, c.Resources.Claims, want)
		}
	}
}

// claimOf returns the name of the only claim that was made for a pod, "" if it has none or several.
func claimOf(p *corev1.Pod) string {
	if s := p.Status.ResourceClaimStatuses; len(s) == 1 && s[0].ResourceClaimName != nil {
		return *s[0].ResourceClaimName
	}
	return ""
}

// devices returns what virt-launcher's code says, in a launcher pod's container, of the devices of a machine's networks.
func (f *fixture) devices(name string, p *corev1.Pod) string {
	f.Helper()
	out, err := f.Cluster.KubectlInput(f.Ctx, f.Kubectl("get", "vmi", name, "-o", "json"), "-n", f.NS, "exec", "-i", p.Name, "-c", "compute", "--", "/usr/bin/devices")
	f.Must(err)
	return out
}
