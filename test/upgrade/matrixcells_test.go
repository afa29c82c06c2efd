//go:build e2e

package upgrade

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
)

// ending is how a person ends an upgrade of which a step has failed.
type ending string

// The endings.
const (
	resume      ending = "resume"
	rollBack    ending = "rollback --node"
	rollBackAll ending = "rollback --all"
)

// cell is one test of the matrix: a fault while a step of a node's move is under way, and the
// command that ends the upgrade.
type cell struct {
	fault fault
	step  upgrade.Step
	end   ending
}

func (c cell) String() string { return fmt.Sprintf("%s in %s, %s", c.fault, c.step, c.end) }

// allCells returns the whole matrix. Faults after which pods have new sandboxes come last.
func allCells() []cell {
	var out []cell
	for _, fault := range faults {
		for i, step := range upgrade.NodeSteps[upgrade.ToNadra] {
			out = append(out, cell{fault, step, resume}, cell{fault, step, []ending{rollBack, rollBackAll}[i%2]})
		}
	}
	return out
}

// someCells returns a cell of each fault, at different steps, of which some end by resume and some by a rollback.
func someCells(seed uint64) []cell {
	random := rand.New(rand.NewPCG(seed, 1))
	all, steps := allCells(), len(upgrade.NodeSteps[upgrade.ToNadra])
	at, first := random.Perm(steps), random.IntN(2)
	var out []cell
	for i := range faults {
		out = append(out, all[2*(i*steps+at[i])+(first+i)%2])
	}
	return out
}

// cells returns the cells to test: those that match UPGRADE_MATRIX, a regular expression, or some.
func (f *fixture) cells(seed uint64) []cell {
	f.Helper()
	text := os.Getenv("UPGRADE_MATRIX")
	if text == "" {
		return someCells(seed)
	}
	chosen, err := regexp.Compile(text)
	f.Must(err)
	var out []cell
	for _, c := range allCells() {
		if chosen.MatchString(c.String()) {
			out = append(out, c)
		}
	}
	return out
}
