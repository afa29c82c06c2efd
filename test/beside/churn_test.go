//go:build e2e

package beside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

var getOptions = metav1.GetOptions{}

const (
	// defaultPods is the number of pod lives without BESIDE_PODS.
	defaultPods = 100
	// maxReplicas and maxStarting limit what is on the node at a time.
	maxReplicas, maxStarting = 5, 10
	// faultEvery is the number of actions between two faults.
	faultEvery = 12

	multusDaemon = "multus-daemon"
)

// churn is a run of the test.
type churn struct {
	*fixture
	rand *rand.Rand
	// checked has the pods that were found right or wrong, holders the holders of addresses.
	checked map[types.UID]bool
	holders map[string]*corev1.Pod
	found   found
}

// number returns the number in an environment variable, or the default.
func number(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

// TestPodsOfBothOnOneNode creates, scales and deletes pods of both halves at random, while the
// programs that serve them end and come back, and checks each pod as soon as it is Ready.
func TestPodsOfBothOnOneNode(t *testing.T) {
	f := setup(t)
	before, err := f.state(f.Ctx)
	f.Must(err)
	lives, seed := number(t, "BESIDE_PODS", defaultPods), number(t, "BESIDE_SEED", time.Now().Nanosecond())
	t.Logf("BESIDE_PODS=%d BESIDE_SEED=%d", lives, seed)
	c := &churn{
		fixture: f, rand: rand.New(rand.NewPCG(uint64(seed), 0)), checked: map[types.UID]bool{}, holders: map[string]*corev1.Pod{},
	}
	for _, h := range f.halves {
		f.NS = h.namespace
		for _, k := range kinds {
			f.ApplyYAML(lab.Workload("Deployment", k.name, "replicas: 2", k.annotation, ""))
		}
	}
	faults := c.faults()
	for actions := 1; len(c.checked) < lives; actions++ {
		c.settle(maxStarting)
		if actions%faultEvery == 0 {
			next := faults[actions/faultEvery%len(faults)]
			t.Logf("after %d pods: %s", len(c.checked), next.name)
			f.Must(next.inject(f.Ctx))
			continue
		}
		c.act()
	}
	c.settle(0)
	if !c.ofMultus { // it deletes the networks of its half
		f.Must(c.installMultus(f.Ctx))
	}
	for _, h := range f.halves {
		_, err := f.Cluster.Kubectl(f.Ctx, "-n", h.namespace, "delete", "deployments", "--all", "--timeout=60s")
		f.Must(err)
		f.Eventually(2*time.Minute, func(ctx context.Context) error {
			pods, err := f.Kube.CoreV1().Pods(h.namespace).List(ctx, metav1.ListOptions{})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("%d pods are left in %s", len(pods.Items), h.namespace)
			}
			return err
		})
	}
	left := f.leftBehind(before, 2*time.Minute)
	for what, list := range map[string][]string{"twice": c.found.twice, "missing": c.found.missing, "left behind": left} {
		if len(list) > 0 {
			t.Errorf("%s:\n%s", what, strings.Join(list, "\n"))
		}
	}
	fmt.Printf("beside-lane: pods=%d twice=%d missing=%d left-behind=%d\n", len(c.checked), len(c.found.twice), len(c.found.missing), len(left))
}

// half returns one of the halves at random that may change now.
func (c *churn) half() half {
	if !c.ofMultus {
		return c.halves[1]
	}
	return c.halves[c.rand.IntN(len(c.halves))]
}

// act scales a workload, or deletes some pods.
func (c *churn) act() {
	c.Helper()
	h, name := c.half(), kinds[c.rand.IntN(len(kinds))].name
	if c.rand.IntN(2) == 0 {
		_, err := c.Cluster.Kubectl(c.Ctx, "-n", h.namespace, "scale", "deployment/"+name, "--replicas="+strconv.Itoa(c.rand.IntN(maxReplicas+1)))
		c.Must(err)
		return
	}
	pods, err := c.Kube.CoreV1().Pods(h.namespace).List(c.Ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	c.Must(err)
	// A pod of Multus is in the API until its sandbox is gone, so that Multus is not removed before.
	grace := int64(1)
	if h.owner == api.OwnerNadra {
		grace = int64(c.rand.IntN(2))
	}
	for _, p := range pods.Items[:min(len(pods.Items), 1+c.rand.IntN(3))] {
		err := c.Kube.CoreV1().Pods(h.namespace).Delete(c.Ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(grace)})
		if !apierrors.IsNotFound(err) {
			c.Must(err)
		}
	}
}

// settle checks pods until at most so many of those that are to run are not Ready yet; with 0, until no
// pod ends any more, too.
func (c *churn) settle(starting int) {
	c.Helper()
	c.Eventually(3*time.Minute, func(ctx context.Context) error {
		var waiting []string
		for _, h := range c.halves {
			pods, err := c.Kube.CoreV1().Pods(h.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range pods.Items {
				p := &pods.Items[i]
				switch {
				case p.DeletionTimestamp != nil:
					if starting == 0 {
						waiting = append(waiting, h.namespace+"/"+p.Name+", which ends")
					}
				case !lab.IsReady(p):
					waiting = append(waiting, h.namespace+"/"+p.Name)
				case !c.checked[p.UID]:
					c.check(ctx, h, p)
				}
			}
		}
		if len(waiting) > starting {
			return fmt.Errorf("%d pods are not Ready, or end: %v", len(waiting), waiting)
		}
		return nil
	})
}

// check inspects a pod, and compares its addresses with those of the others. A pod that ends
// meanwhile does not count.
func (c *churn) check(ctx context.Context, h half, p *corev1.Pod) {
	out, addresses, err := c.inspect(ctx, h, p)
	if !c.isLive(ctx, p) {
		return
	}
	name := fmt.Sprintf("pod %s/%s: ", p.Namespace, p.Name)
	if err != nil {
		out.addMissing("%v", err)
	}
	for _, address := range addresses {
		if other := c.holders[address]; other != nil && c.isLive(ctx, other) {
			out.addTwice("address %s is that of pod %s/%s, too", address, other.Namespace, other.Name)
		}
		c.holders[address] = p
	}
	for _, what := range out.twice {
		c.found.twice = append(c.found.twice, name+what)
	}
	for _, what := range out.missing {
		c.found.missing = append(c.found.missing, name+what)
	}
	c.checked[p.UID] = true
}

func (c *churn) installMultus(ctx context.Context) error {
	c.settle(0)
	c.ofMultus = true
	return c.node.Multus().Install(ctx, multusPrograms)
}

type fault struct {
	name   string
	inject func(context.Context) error
}

// faults returns what happens to the programs on the node, in turns.
func (c *churn) faults() []fault {
	return []fault{
		// Multus leaks the addresses of an ADD in which its daemon is killed, so only pods of nadra change then.
		{"Multus' daemon is killed and starts again", func(ctx context.Context) error {
			c.settle(0)
			c.ofMultus = false
			c.act()
			c.ofMultus = true
			if err := c.node.Kill(ctx, multusDaemon, unix.SIGKILL); err != nil {
				return err
			}
			return c.node.Multus().Install(ctx, multusPrograms)
		}},
		{"nadra's driver is replaced", func(ctx context.Context) error {
			_, err := c.Cluster.Kubectl(ctx, "-n", "nadra", "delete", "pods", "--all", "--wait=false")
			return err
		}},
		{"Multus is removed", func(ctx context.Context) error {
			c.settle(0)
			c.ofMultus = false
			if err := c.freeDefaultAddresses(); err != nil {
				return err
			}
			return c.node.Multus().Remove(ctx)
		}},
		{"Multus is back", c.installMultus},
		{"the kubelet is killed and starts again", func(ctx context.Context) error {
			if err := c.node.Kill(ctx, "kubelet", unix.SIGKILL); err != nil {
				return err
			}
			return c.node.StartComponent(ctx, "kubelet")
		}},
	}
}
