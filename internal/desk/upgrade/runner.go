package upgrade

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/kube"
)

// Runner runs plans and rolls them back.
type Runner struct {
	Kube  kubernetes.Interface
	Store Store
	// Nodes runs the pods that move Multus' configuration on a node. Its namespace
	// is the driver's.
	Nodes nodepod.Runner
	// ConfDir is the directory of CNI configurations that the nodes' container
	// runtimes read.
	ConfDir string
	// Kept is the directory in which a node keeps Multus' configuration.
	Kept string
	// MultusDir is the directory in which Multus keeps what it has attached on a node.
	MultusDir string
	// Verify runs canaries on a node; nil skips them.
	Verify func(ctx context.Context, node string) error
	// VerifyNamespace runs canaries for the networks of a namespace, beside Multus; nil skips them.
	VerifyNamespace func(ctx context.Context, namespace string) error
	// Snapshots compare what the pods of a namespace have before and after its move, beside Multus.
	Snapshots Snapshots
	// Force deletes pods that nothing recreates.
	Force bool
	// DrainTimeout limits the drain of a node, GateTimeout every other wait.
	DrainTimeout, GateTimeout time.Duration
	// Poll is the time between two checks of a wait.
	Poll time.Duration
	// DryRun is "server" to have the API server check all writes, or "client" to
	// send none. A dry run does not wait, and keeps no state.
	DryRun kube.DryRun
	// Say reports progress.
	Say func(format string, args ...any)
}

// Snapshots record and compare the networks of pods. A nil function skips the comparison.
type Snapshots struct {
	// Take returns a snapshot of a namespace.
	Take func(ctx context.Context, namespace string) ([]byte, error)
	// Compare returns an error if the pods have lost something.
	Compare func(before, now []byte) error
}

// GateError is the reason why an upgrade stopped: something was not as it must be to
// continue. Most have a reason.Code.
type GateError struct {
	// Where names the node, namespace or wave, and the step.
	Where string
	Err   error
}

func (e *GateError) Error() string { return e.Where + ": " + e.Err.Error() }
func (e *GateError) Unwrap() error { return e.Err }

// ErrPaused means that a pause was requested.
var ErrPaused = errors.New("a pause was requested: continue with kubectl nadra upgrade resume")

// Run carries out a plan from the point that the state records. It stops after the wave
// upTo, unless that is empty.
func (r *Runner) Run(ctx context.Context, plan *Plan, state *State, upTo string) error {
	run := &run{r, plan, state}
	return run.record(ctx, Running, func(ctx context.Context) (Phase, error) {
		return run.waves(ctx, upTo)
	})
}

// RollBack gives a target back to Multus: node/NAME, namespace/NAME, pod/NAMESPACE/NAME,
// Deployment/NAMESPACE/NAME, StatefulSet/NAMESPACE/NAME, or all. If it refuses the
// target, the state does not change.
func (r *Runner) RollBack(ctx context.Context, plan *Plan, state *State, target string) error {
	return rollback{&run{r, plan, state}}.do(ctx, target)
}
