package bounded

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
		"too long":                 {0, func() { busy(t, maxTime+time.Millisecond) }, 1},
	} {
		f := &failures{TB: t}
		Run(f, tt.input, tt.do)
		if f.count != tt.want {
			t.Errorf("%s: %d errors, want %d", name, f.count, tt.want)
		}
	}
}

// TestGrowth checks that work that grows with the square of the input is refused, and other work is not.
func TestGrowth(t *testing.T) {
	const parts = 8
	square := func(n int) int { return n * n }
	line := func(n int) int { return n * parts }
	spend := func(of func(int) int) func(int) func() {
		return func(n int) func() {
			return func() { busy(t, time.Duration(of(n))*floorTime/(parts*parts)) }
		}
	}
	allocate := func(of func(int) int) func(int) func() {
		return func(n int) func() { return func() { kept = make([]byte, of(n)*floorBytes/(parts*parts)) } }
	}
	for name, tt := range map[string]struct {
		input func(int) func()
		want  int
	}{
		"linear time":      {spend(line), 0},
		"quadratic time":   {spend(square), 1},
		"linear memory":    {allocate(line), 0},
		"quadratic memory": {allocate(square), 1},
		"a square of little": {func(n int) func() {
			return func() { kept = make([]byte, n*n*floorBytes/(parts*parts)/2) }
		}, 0},
	} {
		f := &failures{TB: t}
		Growth(f, parts, tt.input)
		if f.count != tt.want {
			t.Errorf("%s: %d errors, want %d", name, f.count, tt.want)
		}
	}
}

// busy uses CPU time.
func busy(t *testing.T, d time.Duration) {
	for end := cpuTime(t) + d; cpuTime(t) < end; {
	}
}

// TestFuzzTargetsAreBounded checks that each fuzz target of the product limits what an input may take.
func TestFuzzTargetsAreBounded(t *testing.T) {
	target := regexp.MustCompile(`(?ms)^func (Fuzz\w+)\(.*?^}`)
	found := 0
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := fs.WalkDir(os.DirFS("../.."), dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(filepath.Join("../..", name))
			for _, m := range target.FindAllStringSubmatch(string(text), -1) {
				found++
				if !strings.Contains(m[0], "bounded.Run(t, ") {
					t.Errorf("%s: %s does not limit what an input may take", name, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 15 {
		t.Errorf("found only %d fuzz targets", found)
	}
}
