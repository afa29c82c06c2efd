package controller

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// onNode binds a pod.
func onNode(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// driverOn returns a pod of the driver.
func driverOn(node string, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "nadra", "driver-"+node, types.UID("driver-"+node)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "nadra-node", Controller: ptr.To(true)}}
	p.Spec.NodeName, p.Spec.Containers, p.Spec.HostNetwork = node, []corev1.Container{{Name: installation.DriverContainer}}, true
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

// TestNodesWithoutDriver checks that nodes of nadra, and nodes with pods of nadra, are published while they have no
// driver that is ready, and no others.
func TestNodesWithoutDriver(t *testing.T) {
	registry := prometheus.NewRegistry()
	meters, err := metrics.NewController(registry)
	if err != nil {
		t.Fatal(err)
	}
	d := newDrivers(podCache{}, meters, nil, Options{DriverNamespace: "nadra"})
	m := newMigration(cluster(), podCache{}, meters, d)
	is := func(what string, want ...string) {
		t.Helper()
		var got []string
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.Metric {
				if f.GetName() == "nadra_nodes_without_driver" {
					got = append(got, s.Label[0].GetValue())
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	driver := slim(t, driverOn("a", corev1.ConditionTrue))
	d.setNode("a", true, false)
	is("a label and no driver", "a")
	forged := driverOn("a", corev1.ConditionTrue)
	forged.Namespace, forged.UID = "shop", "forged"
	m.OnAdd(slim(t, forged), true)
	is("a pod of a tenant that looks like a driver", "a")
	m.OnAdd(driver, true)
	d.setNode("other", false, false)
	is("a driver that is ready")
	m.OnUpdate(driver, slim(t, driverOn("a", corev1.ConditionFalse)))
	is("a driver that is not", "a")
	m.OnUpdate(driver, driver)
	m.OnDelete(driver)
	is("a driver that is gone", "a")
	m.OnAdd(slim(t, driverOn("z", corev1.ConditionFalse)), true)
	is("a driver where it need not be", "a")
	served := slim(t, asking("p", "", claims("nadra-0123456789"), onNode("b")))
	m.OnAdd(served, true)
	m.OnAdd(slim(t, asking("q", withNet1, onNode("c"))), true)                               // of Multus
	m.OnAdd(slim(t, asking("gpu", withNet1, onNode("d"), extended("nvidia.com/gpu"))), true) // the same
	is("a pod of nadra", "a", "b")
	m.OnAdd(slim(t, driverOn("b", corev1.ConditionTrue)), true)
	is("a driver there", "a")
	m.OnDelete(slim(t, driverOn("b", corev1.ConditionTrue)))
	is("no driver there", "a", "b")
	m.OnDelete(served)
	d.setNode("a", false, false)
	is("neither a label nor a pod")
	if len(d.nodes) > 0 || len(d.at) != 0 {
		t.Errorf("kept: %v, %v", d.nodes, d.at)
	}
	beside := newDrivers(podCache{}, meters, nil, Options{BesideMultus: true})
	beside.setNode("a", true, false)
	is("a label beside Multus")
}

// TestProfileOfADeadDriver checks that a node whose driver is away for long loses its profile, and no other node.
func TestProfileOfADeadDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meters, err := metrics.NewController(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		var objects []client.Object
		for _, name := range []string{"dead", "back", "well", "new"} {
			objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.ProfileLabel: "p", "zone": "z"}}})
		}
		c := cluster(objects...)
		d := newDrivers(podCache{}, meters, c, Options{DriverNamespace: "nadra"})
		m := newMigration(cluster(), podCache{}, meters, d)
		for _, o := range objects {
			d.setNode(o.GetName(), true, true)
			if o.GetName() != "new" {
				m.OnAdd(slim(t, driverOn(o.GetName(), corev1.ConditionTrue)), true)
			}
		}
		labels := func(node string) map[string]string {
			var n corev1.Node
			if err := c.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
				t.Fatal(err)
			}
			return n.Labels
		}
		m.OnDelete(slim(t, driverOn("dead", corev1.ConditionTrue)))
		m.OnDelete(slim(t, driverOn("back", corev1.ConditionTrue)))
		time.Sleep(driverGrace / 2)
		m.OnAdd(slim(t, driverOn("back", corev1.ConditionTrue)), false)
		if got := labels("dead"); got[v1alpha1.ProfileLabel] != "p" {
			t.Errorf("an update of the driver costs the profile: %v", got)
		}
		time.Sleep(driverGrace)
		synctest.Wait()
		for node, want := range map[string]int{"dead": 1, "back": 2, "well": 2, "new": 2} {
			if got := labels(node); len(got) != want || got["zone"] != "z" {
				t.Errorf("node %s has the labels %v, want %d", node, got, want)
			}
		}
		time.Sleep(firstDriverGrace)
		synctest.Wait()
		if got := labels("new"); len(got) != 1 {
			t.Errorf("a node whose first driver never came has the labels %v", got)
		}
	})
}

// TestDriversElsewhere checks that no node loses its profile while the controller sees no driver at all: it may look in the
// wrong namespace.
func TestDriversElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meters, err := metrics.NewController(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{v1alpha1.ProfileLabel: "p"}}}
		c := cluster(node)
		d := newDrivers(podCache{}, meters, c, Options{DriverNamespace: "elsewhere"})
		newMigration(cluster(), podCache{}, meters, d).OnAdd(slim(t, driverOn("node", corev1.ConditionTrue)), true)
		d.setNode("node", true, true)
		profile := func() string {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
				t.Fatal(err)
			}
			return node.Labels[v1alpha1.ProfileLabel]
		}
		time.Sleep(3 * firstDriverGrace)
		synctest.Wait()
		if profile() == "" {
			t.Error("the profile is gone")
		}
		d.namespace = "nadra"
		newMigration(cluster(), podCache{}, meters, d).OnAdd(slim(t, driverOn("other", corev1.ConditionTrue)), true)
		time.Sleep(2 * driverGrace)
		synctest.Wait()
		if profile() != "" {
			t.Error("a node without a driver keeps its profile after another's was seen")
		}
	})
}
