// Package bounded fails fuzz tests on inputs that take too much time or memory, besides those that
// make the code panic. Only tests import it. bounded.go is its only file.
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := cpuTime(t)
	do()
	took := cpuTime(t) - begin
	runtime.ReadMemStats(&after)
	if took > maxTime {
		t.Errorf("an input of %d bytes takes %v of CPU time, more than %v", input, took, maxTime)
	}
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(maxBytes+maxPerByte*input); took > most {
		t.Errorf("an input of %d bytes allocates %d bytes, more than %d", input, took, most)
	}
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
