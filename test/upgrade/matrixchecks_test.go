//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// check checks what a cell leaves behind, on a node that is its owner's now.
func (m *matrix) check(c cell, owner string) {
	m.Helper()
	// The controller manager removes the taint of a cordon. After an outage of the API server its watch of the
	// nodes has lagged behind by 80 s.
	if err := lab.Eventually(m.Ctx, 4*time.Minute, m.uncordoned); err != nil {
		m.sum.cordoned++
		m.Errorf("%s: %v", c, err)
	}
	if err := lab.Eventually(m.Ctx, time.Minute, m.noCanary); err != nil {
		m.Errorf("%s: %v", c, err)
	}
	if diff := cmp.Diff(m.before, m.observed(m.running())); diff != "" {
		m.Errorf("%s: the pods have changed (-before +now):\n%s", c, diff)
		m.before = m.observed(m.running())
	}
	for _, node := range m.nodes() {
		has := v1alpha1.OwnerMultus
		if node == m.moves {
			has = owner
		}
		if err := lab.Eventually(m.Ctx, 30*time.Second, func(ctx context.Context) error { return m.detached(ctx, node, has) }); err != nil {
			m.Errorf("%s: %v", c, err)
		}
		if lost := m.packets[node].lost(); lost > m.lostBefore[node] {
			m.Errorf("%s: pods of %s have lost %d packets", c, node, lost-m.lostBefore[node])
			m.lostBefore[node] = lost
		}
	}
}

// newSandboxes takes the pods of the node that was lost as they are now. The pods of the other node must not have changed.
func (m *matrix) newSandboxes() {
	m.Helper()
	pods := m.running()
	now := m.observed(pods)
	for _, p := range pods {
		if p.Spec.NodeName == m.moves {
			m.before[p.Name] = now[p.Name]
		}
	}
}

// uncordoned returns an error for a node with a cordon or a taint.
func (m *matrix) uncordoned(ctx context.Context) error {
	list, err := m.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is left unschedulable: %t, with taints %v", n.Name, n.Spec.Unschedulable, n.Spec.Taints)
		}
	}
	return nil
}

// noCanary returns an error for a canary that is left behind.
func (m *matrix) noCanary(ctx context.Context) error {
	list, err := m.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: canary.Selector()})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("canary %s/%s is left behind", list.Items[0].Namespace, list.Items[0].Name)
	}
	return err
}

// custodians lists who has to detach the networks of which sandboxes of a node: a line has "multus", "taken" (by nadra), or "record"
// (nadra's), and the sandbox's ID.
const custodians = `cd /var/lib/cni/multus; find . -maxdepth 1 -type f -printf 'multus %f\n'
[ -d nadra ] && find nadra -type f -printf 'taken %f\n'
grep -rhoE '[0-9a-f]{64}' STATE/claims 2>/dev/null | sort -u | sed 's/^/record /'; true`

// detached returns an error if somebody else than the owner of a node, or nobody, is to detach the networks of one of its pods. On a
// node of nadra's, nadra has a record of what it has attached or adopted. On one of Multus', Multus has its file of what it has attached,
// and of what nadra has given to it.
func (m *matrix) detached(ctx context.Context, node, owner string) error {
	n := m.node(node)
	out, err := n.Exec(ctx, "sh", "-c", strings.ReplaceAll(custodians, "STATE", stateDir))
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		has[strings.TrimSpace(line)] = true
	}
	for _, p := range m.running() {
		if p.Spec.NodeName != node {
			continue
		}
		id := m.before[p.Name].Sandbox
		multus, taken, record := has["multus "+id], has["taken "+id], has["record "+id]
		right := record && !multus
		if owner == v1alpha1.OwnerMultus {
			right = multus && !record && !taken
		}
		if !right {
			return fmt.Errorf("%s is %s's, and of sandbox %.12s of pod %s Multus has its file: %t, nadra has taken it: %t, nadra has a record: %t",
				node, owner, id, p.Name, multus, taken, record)
		}
	}
	return nil
}
