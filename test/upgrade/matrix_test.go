//go:build e2e

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// matrix carries out cells, one after another, with a node that moves to nadra and back.
type matrix struct {
	*fixture
	random *rand.Rand
	plan   string
	// moves is the node that moves, and on which faults happen.
	moves      string
	before     map[string]observation
	packets    map[string]*traffic // by node
	lostBefore map[string]int
	sum        totals
	// long is true until the API server was away for long.
	long bool
}

// totals are the figures of a run.
type totals struct{ cells, resumed, completed, rolledBack, cordoned, sent, lost int }

// TestAnyStepFails makes every kind of fault happen while the steps of a node's move, and of its way back, are under way, and
// ends the upgrade with resume or rollback. No node may stay cordoned, no pod may be touched, none may
// lose a packet, and every sandbox must have somebody who detaches its networks. By default it tests five
// cells of the matrix, chosen at random; UPGRADE_MATRIX=. tests all.
func TestAnyStepFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
	seed := f.seed()
	cells := f.cells(seed)
	t.Logf("%d cells; again with UPGRADE_SEED=%d", len(cells), seed)
	m := newMatrix(f, seed)
	for _, c := range cells {
		m.test(c)
	}
	m.end()
}

// newMatrix installs workloads under Multus, and nadra beside it.
func newMatrix(f *fixture, seed uint64) *matrix {
	f.Helper()
	f.Must(f.Apply(f.Ctx, stack))
	f.addUnmovable(ofStack)
	f.installNadra()
	m := &matrix{fixture: f, random: rand.New(rand.NewPCG(seed, 2)), packets: map[string]*traffic{}, lostBefore: map[string]int{}, long: true}
	m.moves = f.nodes()[0]
	m.plan = m.planOf(m.moves)
	m.before = f.observed(f.running())
	for _, node := range f.nodes() {
		m.send(node)
	}
	return m
}

// planOf writes a plan that moves one node and no namespace.
func (m *matrix) planOf(node string) string {
	m.Helper()
	p, err := upgrade.ParsePlan([]byte(m.nadra("upgrade", "plan", "--first", node)))
	m.Must(err)
	p.Waves = p.Waves[:1]
	if names := p.Movers(p.Waves...); len(names) != 1 || names[0] != node || len(p.Waves[0].Namespaces) > 0 {
		m.Fatalf("the first wave is %+v, want %s alone", p.Waves[0], node)
	}
	text, err := document.JSON(p, "  ")
	m.Must(err)
	return m.file("plan.json", string(text))
}

// send sends packets to the pods of a node.
func (m *matrix) send(node string) {
	m.Helper()
	var pods []corev1.Pod
	for _, p := range m.running() {
		if p.Spec.NodeName == node {
			pods = append(pods, p)
		}
	}
	m.packets[node], m.lostBefore[node] = m.begin(m.aims(pods), func(string) bool { return true }), 0
}

// stop stops the packets to the pods of a node, and counts them.
func (m *matrix) stop(node string) {
	m.Helper()
	sent, lost := m.packets[node].end()
	m.sum.sent += sent
	for _, one := range lost {
		m.Errorf("lost: %s", one)
	}
	for _, one := range m.packets[node].flows {
		m.sum.lost += one.unanswered(one.sent)
	}
	delete(m.packets, node)
}

// textBefore returns the text that run or rollback prints before it takes a cell's step.
func (m *matrix) textBefore(c cell) string {
	steps := upgrade.NodeSteps[c.direction]
	if i := slices.Index(steps, c.step); i > 0 {
		return fmt.Sprintf("node %s: %s (", m.moves, steps[i-1])
	}
	return "wave-1: 1 of 1"
}

// slow are the steps that take some time: a fault happens at any moment of them.
var slow = map[upgrade.Step]time.Duration{
	upgrade.Inspect: time.Second, upgrade.Unconfigure: time.Second, upgrade.Adopt: time.Second, upgrade.Verify: 3 * time.Second,
	upgrade.Release: time.Second, upgrade.Return: 3 * time.Second,
}

// test carries out a cell. The node is Multus' before and afterwards.
func (m *matrix) test(c cell) {
	m.Helper()
	began := time.Now()
	m.Logf("cell %d: %s", m.sum.cells+1, c)
	forward, struck := []string{"run", "-f", m.plan, "--yes", "--gate-timeout=20s"}, []string{"rollback", "--node", m.moves, "--yes", "--gate-timeout=20s"}
	if c.direction == upgrade.ToNadra {
		struck = forward
	} else {
		m.nadra(append([]string{"upgrade"}, forward...)...)
	}
	run := m.begun([]string{m.textBefore(c)}, struck...)
	if !run.hasPrinted() {
		m.Fatalf("%s: the command has ended before the step: %v\n%s", c, run.err, run)
	}
	if d := slow[c.step]; d > 0 {
		time.Sleep(time.Duration(m.random.Int64N(int64(d))))
	}
	m.strike(c, run)
	m.Logf("run has ended with %d:\n%s", run.code(), run)
	m.judge(c, run.code())
	owner := v1alpha1.OwnerNadra
	if c.direction == upgrade.ToMultus || c.end != resume {
		owner = v1alpha1.OwnerMultus
		if c.fault == nodeLost {
			m.awaitDriver()
		}
	}
	switch {
	case c.end == resume && m.isDone(c.direction):
		m.sum.completed++
	case c.end == resume:
		m.nadra("upgrade", "resume", "--yes")
		m.sum.resumed++
	default:
		m.back(c.end)
		m.sum.rolledBack++
	}
	if c.fault == nodeLost {
		m.servedAgain(m.moves)
		m.newSandboxes()
		m.send(m.moves)
	}
	m.check(c, owner)
	if owner == v1alpha1.OwnerNadra {
		m.back(rollBack)
		m.check(c, v1alpha1.OwnerMultus)
	}
	m.sum.cells++
	m.Logf("cell %d took %s: %s", m.sum.cells, time.Since(began).Round(time.Second), c)
}

// isDone reports whether the upgrade, or the rollback, needs no resume, because it has survived the fault.
func (m *matrix) isDone(d upgrade.Direction) bool {
	m.Helper()
	_, state, _, err := upgrade.Store{Kube: m.Kube, Namespace: lab.ControllerNamespace}.Load(m.Ctx)
	m.Must(err)
	return state.Phase == map[upgrade.Direction]upgrade.Phase{upgrade.ToNadra: upgrade.Done, upgrade.ToMultus: upgrade.Paused}[d]
}

// awaitDriver waits until the driver has synchronized with the runtime in the node's present boot, as docs/migrate/upgrade.md asks for
// before a rollback: it attaches pods that have started without it only while the node is nadra's.
func (m *matrix) awaitDriver() {
	m.Helper()
	m.Eventually(time.Minute, func(ctx context.Context) error {
		pid := drivers(m.node(m.moves))
		if len(pid) == 0 {
			return errors.New("the driver does not run")
		}
		_, err := m.node(m.moves).Exec(ctx, "curl", "-fsS", "http://127.0.0.1:9078/readyz")
		return err
	})
}

// back rolls back the node, or everything, which is the same node.
func (m *matrix) back(how ending) {
	m.Helper()
	if how == rollBackAll {
		m.nadra("upgrade", "rollback", "--all", "--yes")
		return
	}
	m.nadra("upgrade", "rollback", "--node", m.moves, "--yes")
}

// judge checks the exit code of the run that a fault struck.
func (m *matrix) judge(c cell, code int) {
	m.Helper()
	switch code {
	case cli.CodeOK, cli.CodeRefused:
		return
	case cli.CodeInterrupted: // by the test
		if c.end != resume {
			return
		}
	case -1:
		if c.fault == killed {
			return
		}
	}
	m.Errorf("%s: run has ended with %d, want %d or %d", c, code, cli.CodeOK, cli.CodeRefused)
}

// end rolls back everything, and removes workloads and nadra.
func (m *matrix) end() {
	m.Helper()
	for _, node := range m.nodes() {
		m.stop(node)
	}
	m.nadra("upgrade", "rollback", "--all", "--yes")
	m.Kubectl("-n", namespace, "delete", "statefulsets,deployments,daemonsets,pods", "--all", "--timeout=120s")
	m.noStaticPods()
	m.nothingLeft()
	m.nothingTaken()
	m.Logf("%d packets were sent", m.sum.sent)
	fmt.Printf("upgrade-matrix: cells=%d resumed=%d completed=%d rolled-back=%d cordoned=%d packets-lost=%d\n",
		m.sum.cells, m.sum.resumed, m.sum.completed, m.sum.rolledBack, m.sum.cordoned, m.sum.lost)
	m.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	m.nadra("uninstall", "--yes")
}
