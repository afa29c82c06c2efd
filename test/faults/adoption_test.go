//go:build e2e

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// hands has the points at which the driver dies while the node goes to nadra, and back to Multus.
// When Multus is back, the driver deletes its records: then it dies at the third point.
var hands = []struct{ take, back, forget failpoint.Point }{
	{failpoint.BeforeTake, failpoint.BeforeReturn, failpoint.BeforeRecordDelete},
	{failpoint.AfterTake, failpoint.AfterReturn, failpoint.AfterRecordDelete},
	{take: failpoint.BeforeRecordWrite},
	{take: failpoint.AfterRecordWrite},
}

// TestAdoptionAtEachFailPoint moves a node with three pods of a thin Multus to nadra and back, again
// and again, and ends the pods on nadra's node. The driver dies at each point of adoption.
func TestAdoptionAtEachFailPoint(t *testing.T) {
	a := setUpAdoption(t)
	a.start("one-1", "two-2", "three-3")
	attachments := 1 + 2 + 3
	for _, points := range hands {
		a.toNadra(points.take)
		a.toMultus(points.back, points.forget)
	}
	a.toNadra("")
	if dels := a.runs("DEL"); len(dels) > 0 {
		t.Errorf("plugins ran DEL while the node changed hands: %v", dels)
	}
	for _, point := range []failpoint.Point{failpoint.BeforeRecordWrite, failpoint.AfterRecordWrite} {
		a.handOver("own-2", point)
		attachments += wanted("own-2")
	}

	a.end("one-1", failpoint.BeforeDel, 2)
	a.end("two-2", failpoint.AfterDel, 1)
	a.end("three-3", "", 0)
	a.listed("leases", leases, 0)
	a.listed("files of Multus", "find "+multusDir+" -type f", 0)
	for name, sandbox := range a.sandboxes {
		a.listed("entries of pod "+name+" in the runtime's cache", "ls -d /var/lib/cni/results/*"+sandbox.ID+"*", 0)
	}
	a.countDELs(attachments)
	for _, f := range a.checker.all() {
		t.Errorf("pod %s has run without %s: %s", f.pod, f.missing, f.evidence)
	}
	for _, what := range a.leaks(a.ctx, leftoverLimit) {
		t.Errorf("left over: %s", what)
	}
}

const (
	// multusDir is Multus' directory, takenDir that of the sandboxes that nadra has taken.
	multusDir = "/var/lib/cni/multus"
	takenDir  = multusDir + "/nadra"
	// leases lists host-local's leases of the adopted pods, in order.
	leases = "ls -d /var/lib/cni/networks/flt-counted/10.83.0.*"
	// handsLimit is how long the node may take to follow its owner, with a driver that dies.
	handsLimit = 2 * time.Minute
)

// adoption is a test of adoption.
type adoption struct {
	*suite
	// sandboxes has the pods' sandboxes.
	sandboxes map[string]cluster.PodSandbox
	// before has the state of the pods as Multus attached them.
	before string
}

// setUpAdoption gives the node to a thin Multus, with a network whose plugin counts its runs.
func setUpAdoption(t *testing.T) *adoption {
	t.Helper()
	s := setUp(t, "adopted", 15*time.Minute)
	a := &adoption{suite: s, sandboxes: map[string]cluster.PodSandbox{}}
	t.Cleanup(a.undo)
	s.must(order(suiteFile(s.node, "counted"), ""))
	s.must(lab.WriteHostFile(s.node, pluginDir+"/counter", []byte(counter), 0o755))
	s.must(s.CreateNAD(s.ctx, s.ns, "counted", `{"cniVersion":"1.0.0","name":"flt-counted","plugins":[`+
		`{"type":"bridge","bridge":"br-flt3","ipam":{"type":"host-local","subnet":"10.83.0.0/24"}},{"type":"counter"}]}`))
	remove, err := lab.AddDriverArgs(s.ctx, s.Lab, "--owned-nodes=labelled")
	if remove != nil {
		t.Cleanup(func() {
			if err := remove(s.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	s.must(err)
	program, err := cluster.BuildMultus(s.ctx, os.Stderr)
	s.must(err)
	s.must(s.node.Multus().InstallThin(s.ctx, program))
	return a
}

// undo ends the test's pods, removes Multus from the node and takes back the test's orders.
func (a *adoption) undo() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Minute)
	defer cancel()
	for _, p := range failpoint.Points {
		if err := order(failPointFile(a.node, "kill", string(p)), ""); err != nil {
			a.t.Errorf("disarming fail point %s: %v", p, err)
		}
	}
	for _, args := range [][]string{
		{"-n", a.ns, "delete", "pods", "--all", "--grace-period=1", "--timeout=2m"},
		{"label", "node", a.node.Name(), "nadra.dev/owner-"},
	} {
		if _, err := a.Cluster.Kubectl(ctx, args...); err != nil {
			a.t.Error(err)
		}
	}
	if err := a.node.Multus().RemoveThin(ctx); err != nil {
		a.t.Error(err)
	}
	if _, err := a.node.Exec(ctx, "rm", "-f", pluginDir+"/counter"); err != nil {
		a.t.Error(err)
	}
}

// start creates pods with as many networks as the numbers in their names, and waits until they are ready.
func (a *adoption) start(names ...string) {
	a.t.Helper()
	for _, name := range names {
		pod := lab.Pod(a.ns, name, "")
		pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: strings.Join(slices.Repeat([]string{"counted"}, wanted(name)), ",")}
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
		_, err := a.CreatePod(a.ctx, pod)
		a.must(err)
	}
	for _, name := range names {
		pod, err := a.Ready(a.ctx, a.ns, name, 2*time.Minute)
		a.must(err)
		a.sandboxes[name], err = a.node.PodSandbox(a.ctx, string(pod.UID))
		a.must(err)
	}
	a.before = a.state()
}

// handOver starts a pod that nadra attaches without a claim, gives the node to Multus, while the driver
// dies at a point of the pod's hand-over, and ends the pod there. Then the node goes to nadra again.
func (a *adoption) handOver(name string, point failpoint.Point) {
	a.t.Helper()
	a.start(name)
	a.listed("files with records", "ls "+stateDir+"/claims", len(a.sandboxes))
	a.toMultus(point, "")
	a.must(a.DeletePod(a.ctx, a.ns, name))
	a.listed("files of pod "+name, "find "+multusDir+" "+stateDir+"/cni /var/lib/cni/results -name '*"+a.sandboxes[name].ID+"*'", 0)
	delete(a.sandboxes, name)
	a.before = a.state()
	a.toNadra("")
}

// toNadra gives the node to nadra, while the driver dies at a point, and checks that it adopts all
// pods without touching them.
func (a *adoption) toNadra(point failpoint.Point) {
	a.t.Helper()
	a.must(a.node.Multus().HideThin(a.ctx))
	a.diesAt(point, func() { a.label("nadra.dev/owner=nadra") })
	a.taken(len(a.sandboxes))
	a.listed("sandboxes that Multus has", "find "+multusDir+" -maxdepth 1 -type f", 0)
	a.listed("files with records", "ls "+stateDir+"/claims", len(a.sandboxes))
	a.unchanged("nadra, dying at " + string(point))
}

// toMultus gives the node back to Multus, while the driver dies at a point, and when Multus is back
// at another one, and checks that it forgets all pods without touching them.
func (a *adoption) toMultus(back, forget failpoint.Point) {
	a.t.Helper()
	a.diesAt(back, func() { a.label("nadra.dev/owner-") })
	a.taken(0)
	a.listed("sandboxes that Multus has", "find "+multusDir+" -maxdepth 1 -type f", len(a.sandboxes))
	a.diesAt(forget, func() { a.must(a.node.Multus().ShowThin(a.ctx)) })
	a.listed("files with records", "ls "+stateDir+"/claims", 0)
	a.unchanged("Multus, dying at " + string(back))
}

// end deletes a pod, while the driver dies at a point, and waits until so many pods have records.
// Without this wait, the driver that comes back would run this pod's DELs into the next point.
func (a *adoption) end(name string, point failpoint.Point, left int) {
	a.t.Helper()
	a.diesAt(point, func() { a.must(a.DeletePod(a.ctx, a.ns, name)) })
	a.listed("files with records", "ls "+stateDir+"/claims", left)
}

// diesAt calls act and waits until the driver has died at a point and runs again. Without a point
// it only calls act.
func (a *adoption) diesAt(point failpoint.Point, act func()) {
	a.t.Helper()
	if point == "" {
		act()
		return
	}
	before, err := lab.DriverPID(a.node)
	a.must(err)
	path, began := failPointFile(a.node, "kill", string(point)), time.Now()
	a.must(order(path, "x"))
	act()
	a.eventually(handsLimit, func() error {
		if isThere(path) {
			return fmt.Errorf("the driver has not reached fail point %s", point)
		}
		now, err := lab.DriverPID(a.node)
		if err == nil && now == before {
			err = fmt.Errorf("driver %s still runs after fail point %s", before, point)
		}
		return err
	})
	a.note("the driver died at %s and is back after %s", point, time.Since(began).Round(time.Millisecond))
}

// label changes the node's label with its owner.
func (a *adoption) label(label string) {
	a.t.Helper()
	_, err := a.Cluster.Kubectl(a.ctx, "label", "node", a.node.Name(), label)
	a.must(err)
}

// taken waits until nadra has taken so many sandboxes. All of them are the pods'.
func (a *adoption) taken(want int) {
	a.t.Helper()
	for _, id := range a.listed("sandboxes that nadra has taken", "ls "+takenDir, want) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(a.sandboxes)), func(s cluster.PodSandbox) bool { return s.ID == id }) {
			a.t.Errorf("nadra has taken %s, which is no sandbox of the pods", id)
		}
	}
}

// unchanged checks that leases and network namespaces are as Multus attached them.
func (a *adoption) unchanged(when string) {
	a.t.Helper()
	if now := a.state(); now != a.before {
		a.t.Errorf("when the node had gone to %s, the pods had\n%s\nwant\n%s", when, now, a.before)
	}
}

// state describes the pods' network namespaces and host-local's leases.
func (a *adoption) state() string {
	a.t.Helper()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.sandboxes)) {
		inside := "nsenter --net=" + a.sandboxes[name].NetNS + " "
		out.WriteString(name + "\n" + a.output(inside+"stat -L -c %i /proc/self/ns/net; "+inside+"ip -o link; "+inside+"ip -o -4 addr; "+inside+"ip route"))
	}
	return out.String() + a.output("for f in $("+leases+"); do echo $f; cat $f; echo; done")
}

// output runs a command on the node and returns what it prints.
func (a *adoption) output(command string) string {
	a.t.Helper()
	out, err := a.node.Exec(a.ctx, "sh", "-ec", command)
	a.must(err)
	return string(out)
}

// listed waits until a command on the node prints so many lines, and returns them.
func (a *adoption) listed(what, command string, want int) (lines []string) {
	a.t.Helper()
	a.must(lab.Eventually(a.ctx, handsLimit, func(ctx context.Context) error {
		out, err := a.node.Exec(ctx, "sh", "-c", command+" 2>/dev/null; true")
		if lines = strings.Fields(string(out)); err == nil && len(lines) != want {
			err = fmt.Errorf("%s: %d, want %d: %q", what, len(lines), want, lines)
		}
		return err
	}))
	return lines
}
