package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// profileBench is a status bench on a node with a profile, and an API server whose controller is the test.
type profileBench struct {
	*statusBench
	t      *testing.T
	kube   *fake.Clientset
	slices *metadatafake.FakeMetadataClient
	// writes are the profiles that were written to the Node.
	writes []string
}

func inProfileBench(t *testing.T, test func(*testing.T, *profileBench)) {
	t.Helper()
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		b := &profileBench{statusBench: c, t: t, kube: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}), slices: metadatafake.NewSimpleMetadataClient(scheme)}
		b.kube.PrependReactor("patch", "nodes", func(action ktesting.Action) (bool, runtime.Object, error) {
			var patch corev1.Node
			if err := json.Unmarshal(action.(ktesting.PatchAction).GetPatch(), &patch); err != nil {
				t.Error(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			b.writes = append(b.writes, patch.Labels[v1alpha1.ProfileLabel])
			return false, nil, nil
		})
		c.profile = newProfile(NodeObject{Name: "node-1", Kube: b.kube, Metadata: b.slices}, c.Background, c.Trigger, c.NADsChanged, func() time.Duration { return 0 })
		test(t, b)
	})
}

// node returns the Node's profile and facts.
func (b *profileBench) node() (string, offer.Facts) {
	b.t.Helper()
	n, err := b.kube.CoreV1().Nodes().Get(b.t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	profile := n.Labels[v1alpha1.ProfileLabel]
	facts, err := offer.ReadFacts(n.Annotations[v1alpha1.FactsAnnotation], profile)
	if err != nil && profile != "" {
		b.t.Errorf("facts: %v", err)
	}
	return profile, facts
}

// says has the Node say this of the profile, and what else is in labels.
func (b *profileBench) says(profile, facts string, labels ...string) {
	all := map[string]string{v1alpha1.ProfileLabel: profile}
	for _, key := range labels {
		all[key] = "there"
	}
	b.NodeSeen(all, map[string]string{v1alpha1.FactsAnnotation: facts})
}

// share makes the slices of the Node's profile as the controller does that does not know one NAD yet, or deletes them.
func (b *profileBench) share(there bool, but ...string) {
	b.t.Helper()
	of := b.slices.Resource(resourceapi.SchemeGroupVersion.WithResource("resourceslices")).(metadatafake.MetadataClient)
	old, err := of.List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range old.Items {
		if err := of.Delete(b.t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	profile, facts := b.node()
	nads, err := b.NADs.List(labels.Everything())
	if err != nil {
		b.t.Fatal(err)
	}
	nads = slices.DeleteFunc(slices.Clone(nads), func(n *nadv1.NetworkAttachmentDefinition) bool { return !there || slices.Contains(but, n.Name) })
	networks := new(offer.Definitions).Of(nads, func(string) (string, []byte, error) { return "", nil, errors.New("in a file") })
	for _, s := range (*offer.Offer)(nil).Of(offer.Arrangement{Networks: facts.Shared(networks), Pods: facts.Pods}, offer.Options{}).Shared(profile) {
		slice := &metav1.PartialObjectMetadata{ObjectMeta: s.ObjectMeta}
		slice.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"))
		if _, err := of.CreateFake(slice, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	after(time.Second)
}

// profiles returns the number of writes since the last call.
func (b *profileBench) profiles() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.writes)
	b.writes = nil
	return n
}

const tiny = `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`

// TestNodeSharesItsNetworks checks that a node publishes what it shares only while there are no slices of its profile.
func TestNodeSharesItsNetworks(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.add("tiny", tiny)
		b.begin(t)
		after(sharedWait / 2)
		drivertest.Same(t, "published before the controller may have answered", []string{"default-tiny"}, b.published())
		after(sharedWait)
		drivertest.Same(t, "published without a controller", []string{"default-red", "default-tiny"}, b.published())
		b.share(true)
		drivertest.Same(t, "published beside the shared slices", []string{"default-tiny"}, b.published())
		b.add("redder", drivertest.RedConf)
		after(time.Second)
		drivertest.Same(t, "published with a NAD that the controller will offer", []string{"default-tiny"}, b.published())
		after(changeWait)
		drivertest.Same(t, "published with a NAD that the controller does not offer", []string{"default-red", "default-redder", "default-tiny"}, b.published())
		b.profile.mu.Lock()
		alone := b.profile.alone
		b.profile.mu.Unlock()
		drivertest.Same(t, "publishes all itself, and not only what a slice lacks", false, alone)
		b.share(true)
		drivertest.Same(t, "published with a NAD that the controller offers", []string{"default-tiny"}, b.published())
		b.share(false)
		after(sharedWait)
		drivertest.Same(t, "published when the shared slices are gone", []string{"default-red", "default-redder", "default-tiny"}, b.published())
	})
}

// TestForgedSharedSlices checks that a node goes by no slices of its profile that the driver of another node has made, if
// an earlier version of the policy has let it.
func TestForgedSharedSlices(t *testing.T) {
	for node, want := range map[string][]string{"node-2": {"default-red"}, "": {}} {
		made := fields.Set{resourceapi.ResourceSliceSelectorDriver: v1alpha1.DriverName, resourceapi.ResourceSliceSelectorNodeName: node}
		inProfileBench(t, func(t *testing.T, b *profileBench) {
			b.slices.PrependReactor("list", "resourceslices", func(action ktesting.Action) (bool, runtime.Object, error) {
				return !action.(ktesting.ListAction).GetListRestrictions().Fields.Matches(made), &metav1.List{}, nil
			})
			b.slices.PrependWatchReactor("resourceslices", func(action ktesting.Action) (bool, watch.Interface, error) {
				return !action.(ktesting.WatchAction).GetWatchRestrictions().Fields.Matches(made), watch.NewFake(), nil
			})
			b.add("red", drivertest.RedConf)
			b.begin(t)
			after(2 * sharedWait)
			b.share(true)
			drivertest.Same(t, "published beside slices of node "+node, want, b.published())
		})
	}
}

// TestSlowController checks that a node publishes nothing itself while the controller changes the shared slices again and
// again, and is always behind.
func TestSlowController(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.begin(t)
		after(time.Second)
		b.share(true)
		for i := range 10 {
			latest := fmt.Sprint("more", i)
			b.add(latest, drivertest.RedConf)
			b.share(true, latest)
			after(changeWait / 2)
			drivertest.Same(t, "published", []string{}, b.published())
		}
		after(changeWait)
		if len(b.published()) == 0 {
			t.Error("the node publishes nothing itself although the controller is away")
		}
	})
}

// TestProfilesOnly checks that a node publishes nothing itself: no network that it does not share, and none without a controller.
func TestProfilesOnly(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.profile.Only = true
		b.add("red", drivertest.RedConf)
		b.add("tiny", tiny)
		b.begin(t)
		after(time.Minute)
		if profile, _ := b.node(); profile == "" {
			t.Error("the node has no profile")
		}
		drivertest.Same(t, "published without a controller", []string{}, b.published())
	})
}

// TestProfileFollowsLoss checks that a loss is written at once, and a gain that comes and goes ever later.
func TestProfileFollowsLoss(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.master(true)
		b.add("blue", drivertest.BlueConf)
		b.begin(t)
		after(time.Minute)
		_, facts := b.node()
		drivertest.Same(t, "interfaces", []string{"lan0"}, facts.Masters)
		b.profiles()
		for range 600 {
			b.master(false)
			b.Trigger()
			after(10 * time.Second)
			_, facts = b.node()
			drivertest.Same(t, "interfaces after a loss", nil, facts.Masters)
			b.master(true)
			b.Trigger()
			after(20 * time.Second)
		}
		if n := b.profiles(); n > 20 {
			t.Errorf("the profile was written %d times in 5 hours", n)
		}
		after(maxGain)
		_, facts = b.node()
		drivertest.Same(t, "interfaces in the end", []string{"lan0"}, facts.Masters)
	})
}

// TestTenantsChangeTheProfileSeldom checks that neither networks of a tenant that come and go, nor what their plugins
// answer, write the Node often, and that the facts stay within their limits.
func TestTenantsChangeTheProfileSeldom(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.begin(t)
		after(time.Minute)
		b.profiles()
		for i := range 1800 {
			name := fmt.Sprint("bad-", i)
			b.set(name, errors.New("down"))
			b.add(name, strings.ReplaceAll(newConf, "bridge", []string{"bridge", "other"}[i%2]))
			after(3 * time.Second)
			if err := b.nads.Delete(drivertest.NAD(name, "")); err != nil {
				t.Fatal(err)
			}
			b.Trigger()
			after(time.Second)
		}
		if n := b.profiles(); n > 20 {
			t.Errorf("the profile was written %d times in two hours", n)
		}
		after(2 * maxGain)
		_, facts := b.node()
		drivertest.Same(t, "unhealthy networks in the end", nil, facts.Unhealthy)
	})
}

// TestLossDoesNotWait checks that a loss is written while a change that all nodes see waits for this node's moment.
func TestLossDoesNotWait(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.profile.spread = func() time.Duration { return time.Hour }
		b.master(true)
		b.add("blue", drivertest.BlueConf)
		b.begin(t)
		after(time.Minute)
		b.profile.mu.Lock()
		b.profile.unhurried = true
		b.profile.mu.Unlock()
		b.profile.write.Set()
		after(time.Second)
		b.master(false)
		b.Trigger()
		after(10 * time.Second)
		_, facts := b.node()
		drivertest.Same(t, "interfaces after a loss", nil, facts.Masters)
	})
}

// TestProfileIsWrittenAgain checks a Node whose facts somebody else has removed, and one that says late what it should.
func TestProfileIsWrittenAgain(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.begin(t)
		after(time.Second)
		profile, facts := b.node()
		b.share(true)
		b.profiles()
		b.says(profile, "")
		after(time.Second)
		drivertest.Same(t, "published without the facts", []string{"default-red"}, b.published())
		text, _, _ := facts.Text()
		b.says(profile, text)
		after(time.Second)
		drivertest.Same(t, "published when they are back", []string{}, b.published())
		b.says("", "")
		after(2 * writeAgain)
		drivertest.Same(t, "writes", 2, b.profiles())
		for range 600 {
			b.says("", "")
			after(writeAgain)
		}
		if n := b.profiles(); n > 25 {
			t.Errorf("%d writes in 5 hours against somebody who removes the label", n)
		}
	})
}

// TestKarpenterNode checks that a node of Karpenter has a slice of its own, without devices, next to those that it shares.
func TestKarpenterNode(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.begin(t)
		after(time.Second)
		profile, facts := b.node()
		text, _, _ := facts.Text()
		b.share(true)
		own := func() int { return len(b.Publisher.published.Slices()) }
		drivertest.Same(t, "slices", 0, own())
		b.says(profile, text, "karpenter.sh/nodepool")
		after(time.Second)
		drivertest.Same(t, "slices of a node of Karpenter", 1, own())
		drivertest.Same(t, "published there", []string{}, b.published())
		b.says(profile, text)
		after(time.Second)
		drivertest.Same(t, "slices when Karpenter has given it up", 0, own())
	})
}

// TestProfileOfOthers checks a node that is not nadra's, and a label that somebody else writes.
func TestProfileOfOthers(t *testing.T) {
	inProfileBench(t, func(t *testing.T, b *profileBench) {
		b.add("red", drivertest.RedConf)
		b.begin(t)
		after(time.Second)
		profile, _ := b.node()
		b.share(true)
		drivertest.Same(t, "published", []string{}, b.published())
		b.says("0123456789abcdef", "{}")
		after(sharedWait)
		drivertest.Same(t, "published under another's label", []string{"default-red"}, b.published())
		b.profiles()
		after(writeAgain)
		again, _ := b.node()
		drivertest.Same(t, "profile", profile, again)
		drivertest.Same(t, "writes", 1, b.profiles())
		drivertest.Same(t, "published again", []string{}, b.published())
		b.own(false)
		b.Trigger()
		after(time.Second)
		none, _ := b.node()
		drivertest.Same(t, "profile of a node that is not nadra's", "", none)
		if slices.Contains(b.published(), "default-red") {
			t.Error("a node that is not nadra's publishes")
		}
	})
}
