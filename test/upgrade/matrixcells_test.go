//go:build e2e

package upgrade

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"

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

// cell is one test of the matrix: a fault while a step of a node's move, or of its way back, is under way, and the
// command that ends the upgrade.
type cell struct {
	fault     fault
	direction upgrade.Direction
	step      upgrade.Step
	end       ending
}

func (c cell) String() string {
	return fmt.Sprintf("%s in %s %s, %s", c.fault, c.step, c.direction, c.end)
}

// directions are the ways of a node: to nadra first, because a rollback needs a node of nadra's.
var directions = []upgrade.Direction{upgrade.ToNadra, upgrade.ToMultus}

// allCells returns the whole matrix. Faults after which pods have new sandboxes come last. A rollback prints nothing
// before its first step, so no fault strikes that one: it is the same as of a move.
func allCells() []cell {
	var out []cell
	for _, fault := range faults {
		for _, direction := range directions {
			for i, step := range upgrade.NodeSteps[direction] {
				if direction == upgrade.ToMultus && i == 0 {
					continue
				}
				back := []ending{rollBack, rollBackAll}[i%2]
				out = append(out, cell{fault, direction, step, resume}, cell{fault, direction, step, back})
			}
		}
	}
	return out
}

// someCells returns a cell of each fault, at random steps. Some are of the move and some of the way back, and of both
// some end by resume and some by a rollback.
func someCells(seed uint64) []cell {
	random := rand.New(rand.NewPCG(seed, 1))
	kinds := random.Perm(4)
	var out []cell
	for i, fault := range faults {
		direction, resumed := directions[kinds[i%4]%2], kinds[i%4] < 2
		fitting := slices.DeleteFunc(allCells(), func(c cell) bool {
			return c.fault != fault || c.direction != direction || (c.end == resume) != resumed
		})
		out = append(out, fitting[random.IntN(len(fitting))])
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
