//go:build e2e

package compose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// shape is a way in which a network uses the device of another driver.
type shape struct {
	nad, driver, nic string
	// listed is how the pod lists its interface.
	listed string
	// vanished is the code of an attempt without the device.
	vanished reason.Code
}

var shapes = []shape{
	{"whole", leaver, leaverNIC, "net1@", reason.PluginFailed},
	{"lan", leaver, leaverNIC, "net1@", reason.PluginFailed},
	{"inner", mover, moverNIC, "net1@" + moverNIC, reason.DeviceNotInPod},
}

// step is a moment at which a driver is killed.
type step struct {
	title string
	// point is nadra's fail point, or a step of the other driver.
	point failpoint.Point
	other bool
	// moves is true if only a driver that moves interfaces has the step.
	moves bool
	// lost has the shapes of which nobody takes the interface out of the pod's namespace before it ends. The kernel
	// deletes an end of a veth with the namespace; it gives a card back to the node.
	lost []string
}

// attaching and detaching are the steps of a pod's start and end, in their order.
var attaching = []step{
	{title: "the other driver, before its Prepare", point: "prepare.before", other: true},
	{title: "the other driver, after its Prepare", point: "prepare.after", other: true},
	{title: "nadra, before it records the device", point: failpoint.BeforeRecordWrite},
	{title: "nadra, after Prepare, before its reply", point: failpoint.BeforePrepared},
	{title: "nadra, after Prepare, after its reply", point: failpoint.AfterPrepared},
	{title: "the other driver, before it moves the interface", point: "move.before", other: true, moves: true},
	{title: "the other driver, after it has moved the interface", point: "move.after", other: true, moves: true},
	{title: "nadra, before ADD", point: failpoint.BeforeAdd},
	{title: "nadra, after ADD", point: failpoint.AfterAdd},
}

var detaching = []step{
	{title: "nadra, before DEL", point: failpoint.BeforeDel, lost: []string{"whole"}},
	{title: "nadra, after DEL", point: failpoint.AfterDel},
	{title: "the other driver, before it moves the interface back", point: "back.before", other: true, moves: true, lost: []string{"inner"}},
	{title: "the other driver, after it has moved the interface back", point: "back.after", other: true, moves: true},
	{title: "nadra, after Unprepare, before its reply", point: failpoint.BeforeUnprepared},
	{title: "nadra, after Unprepare, after its reply", point: failpoint.AfterUnprepared},
	{title: "the other driver, before its Unprepare", point: "unprepare.before", other: true},
	{title: "the other driver, after its Unprepare", point: "unprepare.after", other: true},
}

// order writes the file that makes a driver do something once.
func (f *fixture) order(what, name string) {
	f.Helper()
	f.Must(lab.WriteHostFile(f.node(), path.Join(failpoint.Dir, what, name), nil, 0o644))
}

// obeyed waits until a driver has carried out an order.
func (f *fixture) obeyed(what, name string) {
	f.Helper()
	file, err := f.node().HostPath(path.Join(failpoint.Dir, what, name))
	f.Must(err)
	f.Eventually(waitLimit, func(context.Context) error {
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("nobody has reached %s %s yet", what, name), err)
		}
		return nil
	})
}

// killed returns the name of the order that kills a driver at a step.
func (s shape) killed(at step) string {
	if at.other {
		return s.driver + "." + string(at.point)
	}
	return string(at.point)
}

// of returns the steps that a shape has.
func (s shape) of(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(at step) bool { return at.moves && s.driver != mover })
}

// TestEitherDriverDies kills each driver at each step of a pod on each shape of device, one at the pod's start and one
// at its end. The pod gets its network, a pod that waits for the device gets it after that, and nothing is left.
func TestEitherDriverDies(t *testing.T) {
	outcomes := map[string]map[string]string{}
	for _, s := range shapes {
		outcomes[s.nad] = map[string]string{}
		for _, at := range slices.Concat(attaching, detaching) {
			outcomes[s.nad][at.title] = "no such step"
		}
		starts, ends := s.of(attaching), s.of(detaching)
		for i := range max(len(starts), len(ends)) {
			start, end := starts[i%len(starts)], ends[i%len(ends)]
			t.Run(fmt.Sprintf("%s/%s/%s", s.nad, start.point, end.point), func(t *testing.T) {
				f := setup(t, fmt.Sprintf("dies-%s-%d", s.nad, i))
				outcomes[s.nad][start.title] = f.diesAtStart(s, start)
				outcomes[s.nad][end.title] = f.diesAtEnd(s, end)
			})
		}
	}
	fmt.Println("| Killed | host-device | macvlan on the host | macvlan in the pod |\n| --- | --- | --- | --- |")
	for _, at := range slices.Concat(attaching, detaching) {
		fmt.Printf("| %s | %s | %s | %s |\n", at.title, outcomes["whole"][at.title], outcomes["lan"][at.title], outcomes["inner"][at.title])
	}
}

// diesAtStart starts a pod, and kills a driver at a step.
func (f *fixture) diesAtStart(s shape, at step) string {
	f.Helper()
	f.order("kill", s.killed(at))
	f.create("first", s.driver, true, "nic", s.nad)
	f.obeyed("kill", s.killed(at))
	f.has("first", s.listed, "net1")
	return "attached"
}

// diesAtEnd deletes the pod, kills a driver at a step, and checks that a pod that waits for the device gets it then.
func (f *fixture) diesAtEnd(s shape, at step) string {
	f.Helper()
	f.create("second", s.driver, true, "nic", s.nad)
	f.order("kill", s.killed(at))
	pods := f.Kube.CoreV1().Pods(f.NS)
	f.Must(pods.Delete(f.Ctx, "first", metav1.DeleteOptions{}))
	f.obeyed("kill", s.killed(at))
	f.Eventually(waitLimit, func(ctx context.Context) error {
		// The second is read first: it may be bound once the first is gone.
		second, err := pods.Get(ctx, "second", metav1.GetOptions{})
		f.Must(err)
		first, err := pods.Get(ctx, "first", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && second.Spec.NodeName != "" && first.Status.Phase == corev1.PodRunning: // the kubelet has not unprepared its claim
			f.Fatalf("pod second has the device of pod first, which has not ended")
		}
		return errors.Join(err, errors.New("pod first is still there"))
	})
	outcome := "back"
	if slices.Contains(at.lost, s.nad) { // unless the next process is quicker than the end of the namespace
		if _, err := f.node().Exec(f.Ctx, "ip", "link", "show", s.nic); err != nil {
			outcome = "ended with the pod"
			f.Must(lab.MakeLink(f.Ctx, f.node(), s.nic))
			// The other driver moves an interface once for each sandbox: the sandbox of this pod may be older than the interface.
			f.Must(f.DeletePod(f.Ctx, f.NS, "second"))
			f.create("second", s.driver, true, "nic", s.nad)
		}
	}
	f.has("second", s.listed, "net1")
	f.Must(f.DeletePod(f.Ctx, f.NS, "second"))
	return outcome
}

// TestDeviceVanishes deletes a device between Prepare and the hook. The pod is refused by a code, and attached when the
// device is there again, unless its driver would have to move it again.
func TestDeviceVanishes(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.nad, func(t *testing.T) {
			f := setup(t, "vanishes-"+s.nad)
			order := s.driver + "." + s.nic
			f.order("vanish", order)
			f.create("web", s.driver, true, "nic", s.nad)
			f.obeyed("vanish", order)
			f.refused("web", s.vanished, s.nic)
			f.Must(lab.MakeLink(f.Ctx, f.node(), s.nic))
			if s.driver != mover { // which moves an interface once for each sandbox
				f.has("web", s.listed, "net1")
			}
		})
	}
}
