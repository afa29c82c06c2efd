//go:build e2e

package faults

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nadra-dev/nadra/internal/failpoint"
)

// step is one entry of the schedule: a burst of pods or a fault, and a pause.
type step struct {
	burst []life
	fault *fault
	pause time.Duration
}

// fault is one failure.
type fault struct {
	kind kind
	// what is the fail point, the behaviour or the plugin.
	what string
	// pick chooses a target among those that exist when it happens.
	pick int
	// length is how long a fault lasts that is healed.
	length time.Duration
}

func (f fault) String() string {
	s := string(f.kind)
	if f.what != "" {
		s += " " + f.what
	}
	if f.length > 0 {
		s += fmt.Sprintf(" for %s", f.length.Round(time.Millisecond))
	}
	return s
}

type kind string

const (
	failPoint      kind = "arm fail point"
	killDriver     kind = "kill driver"
	termDriver     kind = "terminate driver"
	rollOut        kind = "roll driver out"
	killPlugin     kind = "kill plugin"
	chaosADD       kind = "chaos ADD"
	chaosDEL       kind = "chaos DEL"
	killRuntime    kind = "kill runtime"
	restartRuntime kind = "restart runtime"
	killKubelet    kind = "kill kubelet"
	endSandbox     kind = "end sandbox"
	forceDelete    kind = "force-delete pod"
	fillDisk       kind = "fill state directory"
	writeProtect   kind = "write-protect state directory"
	takePlugin     kind = "take away plugin"
	stopAPIServer  kind = "stop API server"
	slowAPIServer  kind = "start driver with a slow API server"
	brokenRollOut  kind = "roll out a driver that cannot begin, by"
	cutPower       kind = "cut the node's power"
)

// often has how often each fault happens in livesOfOften lives, and at least once in any
// run. Every fail point and the power cut happen once in any run.
var often = []struct {
	kind      kind
	what      []string
	times     int
	low, high time.Duration
}{
	{kind: killDriver, times: 6},
	{kind: termDriver, times: 3},
	{kind: rollOut, times: 1},
	{kind: killPlugin, times: 6},
	{kind: chaosADD, what: []string{"again", "refuse", "garbage", "die"}, times: 6, low: time.Second, high: 3 * time.Second},
	{kind: chaosADD, what: []string{"hang", "slow2", "slow3"}, times: 6, low: time.Second, high: 3 * time.Second},
	{kind: chaosDEL, what: []string{"again", "refuse", "hang", "slow2", "die"}, times: 5, low: time.Second, high: 4 * time.Second},
	{kind: killRuntime, times: 3},
	{kind: restartRuntime, times: 1},
	{kind: killKubelet, times: 3},
	{kind: endSandbox, times: 7},
	{kind: forceDelete, times: 4},
	{kind: fillDisk, times: 3, low: time.Second, high: 4 * time.Second},
	{kind: writeProtect, times: 2, low: time.Second, high: 4 * time.Second},
	{kind: takePlugin, what: []string{"bridge", "macvlan", "host-local", "chaos"}, times: 4, low: time.Second, high: 4 * time.Second},
	{kind: stopAPIServer, times: 4, low: time.Second, high: 4 * time.Second},
	{kind: slowAPIServer, times: 4, low: 3 * time.Second, high: 8 * time.Second},
	{kind: brokenRollOut, what: []string{"--gate-binary=/missing", "--kubelet-registry-dir=/missing", "--no-such-flag"}, times: 2, low: 4 * time.Second, high: 10 * time.Second},
}

const (
	// livesOfOften is the number of lives that the numbers above are for.
	livesOfOften = 300
	// usualLives is the number of lives of a run. They are enough for each fault.
	usualLives = 150
)

// draw makes the whole schedule from the seed alone.
func draw(seed uint64, pods int) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	bursts, faults := drawBursts(r, pods), drawFaults(r, pods)
	var steps []step
	for i, burst := range bursts {
		steps = append(steps, step{burst: burst, pause: between(r, 0, time.Second)})
		for _, f := range faults[i*len(faults)/len(bursts) : (i+1)*len(faults)/len(bursts)] {
			steps = append(steps, step{fault: &f, pause: between(r, 200*time.Millisecond, 2500*time.Millisecond)})
		}
	}
	return steps
}

// drawBursts draws lives until they have so many pods. A pod that is recreated under its
// name counts twice.
func drawBursts(r *rand.Rand, pods int) [][]life {
	var bursts [][]life
	for number, made := 0, 0; made < pods; {
		burst := make([]life, 5+r.IntN(16))
		for i := range burst {
			burst[i] = drawLife(r, number, pods)
			made += burst[i].pods()
			number++
		}
		bursts = append(bursts, burst)
	}
	return bursts
}

func drawFaults(r *rand.Rand, pods int) []fault {
	var faults []fault
	for range (pods + livesOfOften - 1) / livesOfOften {
		for _, p := range failpoint.Points {
			faults = append(faults, fault{kind: failPoint, what: string(p)})
		}
	}
	for _, o := range often {
		for range max(1, o.times*pods/livesOfOften) {
			f := fault{kind: o.kind, pick: r.IntN(1000)}
			if len(o.what) > 0 {
				f.what = o.what[r.IntN(len(o.what))]
			}
			if o.high > 0 {
				f.length = between(r, o.low, o.high)
			}
			faults = append(faults, f)
		}
	}
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	middle := len(faults) / 2
	return append(faults[:middle:middle], append([]fault{{kind: cutPower}}, faults[middle:]...)...)
}
