// Package bounded fails tests on inputs that take too much time or memory. Run limits one input, for fuzz
// tests; Growth compares an input with one of four times its size. Neither measures speed, which is for
// benchmarks. Only tests import it. bounded.go is its only file.
package bounded

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	// maxTime is far above what any input takes that fits into a request to the API server, also under
	// the race detector, and below what a webhook's caller waits.
	maxTime = 2 * time.Second
	// maxBytes and maxPerByte limit what is allocated for one input: a constant, and a multiple of the
	// input's bytes. Whatever grows with the square of the input exceeds them at some 10 KB.
	maxBytes   = 32 << 20
	maxPerByte = 8 << 10
)

// Run calls do, which handles an input of a number of bytes, and fails the test if that takes more CPU
// time than maxTime or allocates more than the input's size allows. The time on the clock would count
// what else runs on the machine. An input that waits for ever meets the limit of go test. Run counts
// what the whole process uses, so no other test may run at the same time.
func Run(t testing.TB, input int, do func()) {
	t.Helper()
	took := measure(t, do)
	if took.time > maxTime {
		t.Errorf("an input of %d bytes takes %v of CPU time, more than %v", input, took.time, maxTime)
	}
	if most := uint64(maxBytes + maxPerByte*input); took.bytes > most {
		t.Errorf("an input of %d bytes allocates %d bytes, more than %d", input, took.bytes, most)
	}
}

const (
	// growth is how much larger the second input of Growth is, and maxGrowth how much more work it may take:
	// more than growth, for what sorting and caches add, and less than growth squared.
	growth, maxGrowth = 4, 10
	// floorTime and floorBytes are the least work that counts for the first input, so that an input whose
	// square costs nothing passes.
	floorTime  = 2 * time.Millisecond
	floorBytes = 1 << 20
)

// Growth makes inputs of parts and of growth times as many parts, calls the functions that handle them, and
// fails the test if the second takes more than maxGrowth times the work of the first: its work grows with
// the square of the input. Growth takes the least of three calls, because others use the machine, too. As with
// Run, no other test may run at the same time.
func Growth(t testing.TB, parts int, input func(parts int) (do func())) {
	t.Helper()
	small, large := least(t, input(parts)), least(t, input(growth*parts))
	if most := maxGrowth * max(small.time, floorTime); large.time > most {
		t.Errorf("%d parts take %v of CPU time and %d parts %v, more than %v", parts, small.time, growth*parts, large.time, most)
	}
	if most := maxGrowth * max(small.bytes, floorBytes); large.bytes > most {
		t.Errorf("%d parts allocate %d bytes and %d parts %d, more than %d", parts, small.bytes, growth*parts, large.bytes, most)
	}
}

// work is what a function has used.
type work struct {
	time  time.Duration
	bytes uint64
}

// least returns the least work of three calls.
func least(t testing.TB, do func()) work {
	t.Helper()
	out := measure(t, do)
	for range 2 {
		again := measure(t, do)
		out.time, out.bytes = min(out.time, again.time), min(out.bytes, again.bytes)
	}
	return out
}

// measure calls do and returns its work, in all threads of the process.
func measure(t testing.TB, do func()) work {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := cpuTime(t)
	do()
	took := cpuTime(t) - begin
	runtime.ReadMemStats(&after)
	return work{took, after.TotalAlloc - before.TotalAlloc}
}

// cpuTime returns the CPU time that this process has used, in all its threads.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatalf("reading the CPU time of the process: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
