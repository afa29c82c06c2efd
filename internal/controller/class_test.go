package controller

import (
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const bridge = `{"cniVersion":"1.0.0","type":"bridge"}`

func nad(namespace, name, config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}

func pooled(namespace, name, pool string) *nadv1.NetworkAttachmentDefinition {
	n := nad(namespace, name, `{"cniVersion":"1.0.0","type":"sriov"}`)
	n.Annotations = map[string]string{attachment.ResourceNameAnnotation: pool}
	return n
}

// ownClass returns the class that the controller creates for a network.
func ownClass(namespace, name string) *resourceapi.DeviceClass {
	class := translate.DeviceClass(attachment.NetworkRef{Namespace: namespace, Name: name}, "")
	own(class)
	return class
}

func TestDecide(t *testing.T) {
	edited := func() *resourceapi.DeviceClass {
		c := ownClass("a", "net")
		c.Spec.Selectors[0].CEL.Expression = "true"
		c.Labels["team"] = "red"
		return c
	}
	byHand := func() *resourceapi.DeviceClass {
		c := edited()
		c.Labels = nil
		return c
	}
	deleting := edited()
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	reordered := ownClass("a", "net")
	reordered.Labels["team"] = "red"
	reordered.Spec.Config[0].Opaque.Parameters.Raw = []byte(`{"network":{"name":"net","namespace":"a"},"kind":"AttachmentConfig","apiVersion":"nadra.dev/v1alpha1"}`)

	for _, c := range []struct {
		name        string
		want, there *resourceapi.DeviceClass
		action      action
	}{
		{"nothing", nil, nil, leave},
		{"a NAD is new", ownClass("a", "net"), nil, create},
		{"as it should be", ownClass("a", "net"), ownClass("a", "net"), leave},
		{"of a version that did not sort the keys of parameters", ownClass("a", "net"), reordered, update},
		{"edited", ownClass("a", "net"), edited(), update},
		{"the NAD is gone", nil, ownClass("a", "net"), remove},
		{"made by hand, and another", ownClass("a", "net"), byHand(), leave},
		{"made by hand, and the NAD is gone", nil, byHand(), leave},
		{"being deleted: it will be recreated", ownClass("a", "net"), deleting, leave},
	} {
		t.Run(c.name, func(t *testing.T) {
			what, object := decide(c.want, c.there)
			if what != c.action {
				t.Fatalf("decided to %s, want %s", what, c.action)
			}
			if what == update && (!equality.Semantic.DeepEqual(object.Spec, c.want.Spec) || object.Labels["team"] != "red") {
				t.Errorf("the update has spec %v, labels %v: the one should be ours, the others as they were", object.Spec, object.Labels)
			}
		})
	}
}

func TestNetworkClass(t *testing.T) {
	long := strings.Repeat("n", 250)
	for _, c := range []struct {
		name  string
		nad   *nadv1.NetworkAttachmentDefinition
		pools bool
		class string
		event string
	}{
		{"a network", nad("a", "net", bridge), false, "net.a.nad.nadra.dev", ""},
		{"its configuration is a file of the nodes", nad("a", "net", ""), false, "net.a.nad.nadra.dev", ""},
		{"no JSON", nad("a", "net", "{"), false, "", reason.EventNoDeviceClass},
		{"attached by an agent", nad("a", "net", `{"cniVersion":"1.0.0","type":"antrea","networkType":"vlan"}`), false, "", reason.EventNoDeviceClass},
		{"draws from a pool", pooled("a", "vf", "intel.com/sriov"), false, "", ""},
		{"draws from a pool that is served", pooled("a", "vf", "intel.com/sriov"), true, "vf.a.nad.nadra.dev", ""},
		{"names a capacity of nodes", pooled("a", "ovs", "ovs-cni.network.kubevirt.io/br1"), false, "ovs.a.nad.nadra.dev", ""},
		{"a name that is too long for a file", nad("a", long, bridge), false, "", reason.EventNoDeviceClass},
		{"a name that is too long", nad("a", long, `{"cniVersion":"1.0.0","name":"short","type":"bridge"}`), false, attachment.DeviceClassName(attachment.NetworkRef{Namespace: "a", Name: long}), reason.EventDeviceClassNameShortened},
	} {
		t.Run(c.name, func(t *testing.T) {
			class, remark := networkClass(c.nad, nil, c.pools)
			name, event := "", ""
			if class != nil {
				name = class.Name
				if class.Labels[v1alpha1.ManagedByLabel] != v1alpha1.Controller {
					t.Error("the class is not marked as ours")
				}
			}
			if remark != nil {
				event = remark.reason
				if code := reason.In(remark.text); remark.warning && code != reason.NetworkInvalid && code != reason.LimitExceeded {
					t.Errorf("got event %s", remark.text)
				}
			}
			if name != c.class || event != c.event {
				t.Errorf("class %q, event %q; want %q, %q", name, event, c.class, c.event)
			}
		})
	}
}

func TestPoolClass(t *testing.T) {
	serves := func(labels map[string]string) []resourceapi.DeviceClass {
		return []resourceapi.DeviceClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: labels},
			Spec:       resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To("intel.com/sriov")},
		}}
	}
	for _, c := range []struct {
		name, pool string
		others     []resourceapi.DeviceClass
		class      string
		warns      bool
	}{
		{"a pool", "intel.com/sriov", nil, "sriov.intel.com.pool.nadra.dev", false},
		{"one made by hand serves it", "intel.com/sriov", serves(nil), "", false},
		{"one of ours serves it", "intel.com/sriov", serves(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}), "sriov.intel.com.pool.nadra.dev", false},
		{"no domain", "sriov", nil, "", true},
		{"Kubernetes' own", "kubernetes.io/batch", nil, "", true},
		{"longer than an attribute", "intel.com/" + strings.Repeat("s", 60), nil, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			class, remark := poolClass(c.pool, c.others)
			name := ""
			if class != nil {
				name = class.Name
				if *class.Spec.ExtendedResourceName != c.pool {
					t.Errorf("it serves %s", *class.Spec.ExtendedResourceName)
				}
			}
			if name != c.class || (remark != nil) != c.warns || remark != nil && (remark.reason != reason.EventNoDeviceClass || reason.In(remark.text) != reason.PoolInvalid) {
				t.Errorf("class %q, event %v; want %q, %v", name, remark, c.class, c.warns)
			}
		})
	}
}

// TestPoolClassNames checks that names of classes are valid and unique.
func TestPoolClassNames(t *testing.T) {
	pools := map[string]string{}
	for _, pool := range []string{
		"intel.com/sriov", "intel.com/sriov_net", "intel.com/sriov-net", "intel.com/SRIOV", "b/c.a", "a.b/c", "intel.com/c", "c/intel.com",
		"x.io/" + strings.Repeat("v", 63), strings.Repeat("long.", 49) + "io/vf", "x.io/_", "",
	} {
		name := poolClassName(pool)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: class %q is no name: %v", pool, name, problems)
		}
		if other, taken := pools[name]; taken {
			t.Errorf("%s and %s both have class %s", pool, other, name)
		}
		pools[name] = pool
	}
}
