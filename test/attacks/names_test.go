//go:build e2e

package attacks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// victim is a network, and twin one with the same ID under the marks of five characters. An author of NADs
// found the name of the second in 94 seconds on one core.
var (
	victim = attachment.NetworkRef{Namespace: "default", Name: "macvlan-conf"}
	twin   = attachment.NetworkRef{Namespace: "team-evil", Name: "naaed31je"}
)

// twinTries is how many names the row tries if twin has another ID today.
const twinTries = 3_000_000

// TestAttackEqualID creates a NAD whose ID is that of another tenant's network. Pods of that network must
// not be sent to nodes that have only the attacker's, nor beyond the addresses of their range.
func TestAttackEqualID(t *testing.T) {
	a := setup(t, "equal")
	evil, found := equalID()
	if !found {
		a.try("search a NAD with another's ID", func(a *attempt) {
			a.Logf("%d names have other IDs than %s, which is %q", twinTries, victim, attachment.NetworkIDOf(victim))
		})
		return
	}
	a.Must(a.CreateNamespace(a.Ctx, evil.Namespace))
	t.Cleanup(func() { a.clear(evil.Namespace) })
	for i, master := range []string{"vic0", "evl0"} {
		a.Must(lab.MakeLink(a.Ctx, a.Cluster.Node(i+1), master))
	}
	const range2 = `{"type":"host-local","subnet":"10.61.0.0/24","rangeStart":"10.61.0.10","rangeEnd":"10.61.0.11"}`
	macvlan := func(master string) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":%q,"ipam":{}}`, master)
	}
	for _, tt := range []struct {
		name, victims, evils string
		on                   int // the node of the attacker's network
		pods, fit            int
	}{
		{"pods go to a node that has only the attacker's network", macvlan("vic0"), macvlan("evl0"), 2, 6, 6},
		{"pods go beyond the addresses of their range", strings.Replace(macvlan("vic0"), "{}", range2, 1), macvlan("vic0"), 1, 4, 2},
	} {
		a.try(tt.name, func(a *attempt) {
			a.Must(a.CreateNAD(a.Ctx, victim.Namespace, victim.Name, tt.victims))
			a.Must(a.Published(a.Ctx, victim.String()))
			a.Must(a.CreateNAD(a.Ctx, evil.Namespace, evil.Name, tt.evils))
			defer a.deleteNADs(victim, evil)
			if err := lab.Eventually(a.Ctx, 15*time.Second, func(ctx context.Context) error { return a.offers(ctx, tt.on, evil, tt.on == 1) }); err != nil {
				a.Logf("the attacker's network is not published: %v", err)
			}
			for i := range tt.pods {
				_, err := a.CreatePod(a.Ctx, a.pod(fmt.Sprintf("victim-%d", i), victim.String()))
				a.Must(err)
			}
			bound, ready := 0, 0
			err := lab.Eventually(a.Ctx, 90*time.Second, func(context.Context) error {
				bound, ready = 0, 0
				for _, p := range a.pods(a.NS) {
					if p.Spec.NodeName != "" {
						bound++
					}
					if lab.IsReady(&p) {
						ready++
					}
				}
				if ready != tt.fit {
					return fmt.Errorf("%d pods are Ready, want %d; %d are on nodes", ready, tt.fit, bound)
				}
				return nil
			})
			if err == nil && tt.pods > tt.fit {
				err = a.throughout(5*time.Second, func(context.Context) error {
					for _, p := range a.pods(a.NS) {
						if p.Spec.NodeName != "" && !lab.IsReady(&p) {
							return fmt.Errorf("pod %s has a node, and no address is left", p.Name)
						}
					}
					return nil
				})
			}
			if err != nil {
				a.harmed("%v", err)
			}
			a.Kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=120s")
		})
	}
}

// equalID returns a network of the attacker with the ID of the victim's.
func equalID() (attachment.NetworkRef, bool) {
	want := attachment.NetworkIDOf(victim)
	if attachment.NetworkIDOf(twin) == want {
		return twin, true
	}
	for i := range twinTries {
		r := attachment.NetworkRef{Namespace: twin.Namespace, Name: "n" + strconv.FormatInt(int64(i), 36)}
		if attachment.NetworkIDOf(r) == want {
			return r, true
		}
	}
	return attachment.NetworkRef{}, false
}

// offers returns an error unless a node offers the ID of a network, twice if it has both networks.
func (a *attempt) offers(ctx context.Context, node int, r attachment.NetworkRef, both bool) error {
	list, err := a.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	if err != nil {
		return err
	}
	count := 0
	for _, s := range list.Items {
		if s.Spec.NodeName != nil && *s.Spec.NodeName != a.Cluster.Node(node).Name() {
			continue
		}
		for _, d := range s.Spec.Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				if id == attachment.NetworkIDOf(r) {
					count++
				}
			}
		}
	}
	if count == 0 || both && count == 1 {
		return fmt.Errorf("node %d lists the ID %d times", node, count)
	}
	return nil
}

func (a *attempt) deleteNADs(nads ...attachment.NetworkRef) {
	a.Helper()
	for _, r := range nads {
		a.Must(a.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(r.Namespace).Delete(a.Ctx, r.Name, metav1.DeleteOptions{}))
	}
}

// TestAttackLongName creates a NAD with a long name and a short one in its configuration. Its pods must be
// refused before an ADD, or leave nothing behind.
func TestAttackLongName(t *testing.T) {
	a := setup(t, "long")
	// With the capability the driver names a file after the network.
	conf := func(name string) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"bridge","bridge":"br-long","capabilities":{"CNIDeviceInfoFile":true},"ipam":{"type":"host-local","subnet":"10.62.0.0/24"}}`, name)
	}
	// An ordinary pod first: the bridge plugin never removes its bridge.
	a.Must(a.CreateNAD(a.Ctx, a.NS, "first", conf("first")))
	a.lives("first", "first")
	for _, length := range []int{200, 253} {
		a.try(fmt.Sprintf("a name of %d characters", length), func(a *attempt) {
			before, err := lab.TakeSnapshot(a.node)
			a.Must(err)
			nad := strings.Repeat("a", length)
			if err := a.CreateNAD(a.Ctx, a.NS, nad, conf("s"+strconv.Itoa(length))); err != nil {
				a.refused(err, "a NAD of this name")
				return
			}
			a.lives(fmt.Sprintf("web-%d", length), nad)
			if err := lab.NothingAdded(a.Ctx, a.node, before); err != nil {
				a.harmed("%v", err)
			}
			left, err := a.node.Exec(a.Ctx, "sh", "-c", "ls "+a.Cluster.Layout().State+"/pending-dels 2>/dev/null || true")
			a.Must(err)
			if len(left) > 0 {
				a.harmed("pending DELs are left: %s", strings.Fields(string(left)))
			}
		})
	}
}

// lives creates a pod without a claim on the node, waits until it has the network or is told why not, and
// deletes it.
func (a *attempt) lives(pod, network string) {
	a.Helper()
	p := a.pod(pod, network)
	p.Spec.NodeName = a.node.Name()
	_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
	if err != nil {
		a.refused(err, "pod %s", pod)
		return
	}
	a.Eventually(90*time.Second, func(ctx context.Context) error {
		now, err := a.Kube.CoreV1().Pods(a.NS).Get(ctx, pod, metav1.GetOptions{})
		if err != nil || lab.IsReady(now) {
			return err
		}
		events := strings.Join(a.Events(ctx, a.NS, pod), "\n")
		// A network that is not published yet is no refusal.
		if code := reason.In(events); code != "" && code != reason.NetworkNotFound {
			a.Logf("refused: %.300s", events)
			return nil
		}
		return fmt.Errorf("pod %s is neither Ready nor refused: %.1000s", pod, events)
	})
	a.Must(a.DeletePod(a.Ctx, a.NS, pod))
}
