package bounded

import (
	"testing"
	"time"
)

// failures counts the errors that Run reports instead of failing the test.
type failures struct {
	testing.TB
	count int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.count++ }

// kept keeps what a test allocates on the heap.
var kept []byte

// TestRun checks that inputs are refused for their memory or their time, and others are not.
func TestRun(t *testing.T) {
	allocate := func(bytes int) func() { return func() { kept = make([]byte, bytes) } }
	for name, tt := range map[string]struct {
		input int
		do    func()
		want  int
	}{
		"nothing":                  {0, func() {}, 0},
		"as much as is allowed":    {1 << 10, allocate(maxBytes), 0},
		"more than is allowed":     {1 << 10, allocate(maxBytes + 2*maxPerByte<<10), 1},
		"the same for large input": {4 << 10, allocate(maxBytes + 2*maxPerByte<<10), 0},
		"another program's time":   {0, func() { time.Sleep(maxTime + time.Millisecond) }, 0},
		"too long":                 {0, func() { work(t, maxTime+time.Millisecond) }, 1},
	} {
		f := &failures{TB: t}
		Run(f, tt.input, tt.do)
		if f.count != tt.want {
			t.Errorf("%s: %d errors, want %d", name, f.count, tt.want)
		}
	}
}

// work uses CPU time.
func work(t *testing.T, d time.Duration) {
	for end := cpuTime(t) + d; cpuTime(t) < end; {
	}
}
