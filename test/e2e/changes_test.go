//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestSlicesFollowTheNode changes NADs and links and waits until slices follow. The
// publisher checks NADs and links every 15 s; four changes that wait for that take at least
// three times as long.
func TestSlicesFollowTheNode(t *testing.T) {
	f := setup(t, "follow")
	const nad = "follow/blue"
	absent := func(ctx context.Context) error {
		if f.published(ctx, nad) == nil {
			return fmt.Errorf("%s is still published", nad)
		}
		return nil
	}
	present := func(ctx context.Context) error { return f.published(ctx, nad) }

	f.nad("blue", strings.ReplaceAll(macvlanConf, "lan0", "lan7"))
	f.Eventually(2*time.Minute, absent) // its master does not exist
	began := time.Now()
	f.sh("ip link add lan7 type veth peer name lan7p")
	f.Eventually(2*time.Minute, present)
	devices, err := f.Devices(f.Ctx)
	f.Must(err)
	listing := devices[lab.NetworkID(nad)]
	d := listing[0]
	if len(d.Attributes) != 1 {
		t.Errorf("attributes %v, want only the network: lan7 has no PCI function", d.Attributes)
	}
	addresses := d.Capacity["addresses"].Value
	if places := max(addresses.Value(), int64(len(listing))); places != 90 || f.sharedDevices() != (len(listing) == 1) {
		t.Errorf("%d devices with the capacity addresses %s, want the 90 of the range", len(listing), addresses.String())
	}
	f.sh("ip link del lan7")
	f.Eventually(2*time.Minute, absent)
	f.Eventually(time.Minute, f.event("blue", reason.EventNetworkUnavailable, 1, lab.Code(reason.MasterMissing), f.node.Name(), "lan7"))
	f.Must(f.updateNAD("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-f"}`))
	f.Eventually(2*time.Minute, present)
	f.Must(f.deleteNAD("blue"))
	f.Eventually(2*time.Minute, absent)
	if took := time.Since(began); took > 3*15*time.Second {
		t.Errorf("slices have followed four changes in %s: the publisher has not noticed them at once", took)
	}
}

// TestManyNetworks publishes more networks than one device lists. A change of one of them that a slice
// does not show writes nothing.
func TestManyNetworks(t *testing.T) {
	f := setup(t, "many")
	const nads = 200
	for i := range nads {
		f.nad(fmt.Sprintf("net-%03d", i), `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-many"}`)
	}
	copies := 1
	if !f.sharedDevices() {
		copies = 128
	}
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		devices := 0
		listed := map[attachment.NetworkID]bool{}
		for _, s := range list.Items {
			devices += len(s.Spec.Devices)
			for _, d := range s.Spec.Devices {
				for id := range attachment.NetworkIDs(d.Attributes) {
					listed[id] = true
				}
			}
			if s.Spec.Pool.ResourceSliceCount != int64(len(list.Items)) {
				return fmt.Errorf("slice %s counts %d slices, there are %d", s.Name, s.Spec.Pool.ResourceSliceCount, len(list.Items))
			}
		}
		slices := (devices + resourceapi.ResourceSliceMaxDevices - 1) / resourceapi.ResourceSliceMaxDevices
		if len(list.Items) != slices || devices < 2*copies || devices > 4*copies || len(listed) != nads {
			return fmt.Errorf("%d networks on %d devices in %d slices, want %d on %d to %d in %d", len(listed), devices, len(list.Items), nads, 2*copies, 4*copies, slices)
		}
		return nil
	})
	f.bridge("br-many")
	f.start("last", lab.Want{Network: "net-199"})
	f.start("three", lab.Want{Network: "net-007"}, lab.Want{Network: "net-107"}, lab.Want{Network: "net-007"})
}

// TestFullRangeStopsScheduling checks that no pod is scheduled for a network whose
// host-local range is full, instead of failing on the node.
func TestFullRangeStopsScheduling(t *testing.T) {
	f := setup(t, "full")
	f.bridge("br-full")
	f.nad("tiny", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-full","ipam":{"type":"host-local","subnet":"10.67.0.0/29","rangeStart":"10.67.0.2","rangeEnd":"10.67.0.3"}}`)
	f.start("a", lab.Want{Network: "tiny"})
	f.start("b", lab.Want{Network: "tiny"})
	_, err := f.Create(f.Ctx, f.NS, "c", lab.Want{Network: "tiny"})
	f.Must(err)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		for _, e := range f.Events(ctx, f.NS, "c") {
			if strings.HasPrefix(e, "FailedScheduling") {
				return nil
			}
		}
		return fmt.Errorf("pod c was not held back by the scheduler")
	})
	f.Must(f.DeletePod(f.Ctx, f.NS, "a"))
	_, err = f.Ready(f.Ctx, f.NS, "c", time.Minute)
	f.Must(err)
}

// TestRestarts restarts the runtime, the driver and the kubelet while pods run. New pods
// must be attached, and old ones completely detached.
func TestRestarts(t *testing.T) {
	f := setup(t, "restarts")
	f.bridge("br-re")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-re","ipam":{"type":"host-local","subnet":"10.68.0.0/24"}}`)
	f.start("before", lab.Want{Network: "blue"})

	f.Must(f.node.Restart(f.Ctx, f.node.Runtime().Name()))
	f.start("after-runtime", lab.Want{Network: "blue"})

	out, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "delete", "pod", "-l", "app.kubernetes.io/name=nadra-node", "--wait=true")
	if err != nil {
		t.Fatal(err, out)
	}
	f.start("after-driver", lab.Want{Network: "blue"})

	f.Must(f.node.Kill(f.Ctx, "kubelet", unix.SIGKILL))
	f.Must(f.node.StartComponent(f.Ctx, "kubelet"))
	f.start("after-kubelet", lab.Want{Network: "blue"})
	for _, name := range []string{"before", "after-runtime", "after-driver", "after-kubelet"} {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
}

// TestWithoutConsumableCapacity runs without consumable capacity (Kubernetes 1.34 and
// 1.35). nadra must publish copies of its devices, so that several pods have networks.
func TestWithoutConsumableCapacity(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	old, err := lab.Start(ctx, cluster.Options{
		Dir: t.TempDir(), FeatureGates: map[string]bool{"DRAConsumableCapacity": false},
	}, testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := old.Cluster.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, old.DriverLog(ctx))
		}
	}
	must(old.CreateNAD(ctx, "default", "blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-old","ipam":{"type":"host-local","subnet":"10.69.0.0/24"}}`))
	for _, name := range []string{"a", "b"} {
		_, err := old.Create(ctx, "default", name, lab.Want{Network: "blue"}, lab.Want{Network: "blue"})
		must(err)
	}
	for _, name := range []string{"a", "b"} {
		pod, err := old.Ready(ctx, "default", name, time.Minute)
		must(err)
		claim, err := old.Claim(ctx, pod)
		must(err)
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.ShareID != nil {
				t.Errorf("device %s is shared, the gate is not off", r.Device)
			}
		}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
