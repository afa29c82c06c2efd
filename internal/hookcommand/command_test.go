package hookcommand

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run runs a command line, and returns its output.
func run(t *testing.T, line string, env ...string) ([]string, error) {
	t.Helper()
	var out []string
	err := Run(t.Context(), line, env, time.Minute, func(line string) { out = append(out, line) })
	return out, err
}

func TestOutput(t *testing.T) {
	t.Setenv("OF_THE_PROCESS", "kept")
	out, err := run(t, `echo "$OF_THE_PROCESS $NADRA_WAVE_NAME"; echo to stderr >&2; printf 'unfinished\r'; cat`, "NADRA_WAVE_NAME=wave 1; $(id)")
	if want := []string{"kept wave 1; $(id)", "to stderr", "unfinished"}; err != nil || !slices.Equal(out, want) {
		t.Errorf("output %q, %v, want %q", out, err, want)
	}
}

// A long line is split, and none of it is lost, however it is read.
func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine+100)
	want := []string{long[:maxLine], long[:maxLine], long[:100], "end"}
	for _, size := range []int{1, 7, maxLine, maxLine + 1, len(long) + 10} {
		var got []string
		l := &lines{say: func(line string) { got = append(got, line) }}
		for chunk := range slices.Chunk([]byte(long+"\nend"), size) {
			if n, err := l.Write(chunk); n != len(chunk) || err != nil {
				t.Fatal(n, err)
			}
		}
		l.end()
		if !slices.Equal(got, want) {
			t.Errorf("read by %d bytes: %d lines", size, len(got))
		}
	}
	if out, err := run(t, `head -c 10000 /dev/zero | tr '\0' x; echo; echo end`); err != nil || len(out) != 4 || strings.Join(out, "") != strings.Repeat("x", 10000)+"end" {
		t.Errorf("%d lines, %v", len(out), err)
	}
}

// The error of a command that fails has its exit code and its last lines.
func TestFailure(t *testing.T) {
	_, err := run(t, `i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 7`)
	var failed *Error
	var exit *exec.ExitError
	if !errors.As(err, &failed) || len(failed.Tail) != maxTail || failed.Tail[0] != "line 21" || failed.Tail[maxTail-1] != "line 30" {
		t.Fatalf("error %v", err)
	}
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(err.Error(), "exit status 7; its last output: line 21") {
		t.Errorf("error %v, want its exit code", err)
	}
	if _, err := run(t, "exit 1"); err == nil || err.Error() != "exit status 1, without any output" {
		t.Errorf("error %v", err)
	}
}

// What a command leaves in the background does not hold up its end.
func TestBackground(t *testing.T) {
	out, err := run(t, `sleep 600 & echo $!`)
	if err != nil || len(out) != 1 {
		t.Fatalf("output %q, %v", out, err)
	}
	pid, err := strconv.Atoi(out[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("killing the process in the background: %v", err)
	}
}

// After the limit, and when ctx ends, the command and its children end. The output of the
// innermost process is a pipe that closes when none of them lives any more.
func TestEndsProcessGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		line   string
		limit  time.Duration
		cancel bool
		want   error
	}{
		"limit":  {`echo started; sleep 600 & sleep 600; wait`, 300 * time.Millisecond, false, context.DeadlineExceeded},
		"cancel": {`echo started; (sleep 600; echo never) | cat; wait`, time.Minute, true, context.Canceled},
		"trap":   {`trap 'echo cleaned up; exit 0' TERM; echo started; sleep 600 & wait`, time.Minute, true, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opened := make(chan *os.File, 1)
			go func() {
				reader, err := os.Open(fifo)
				if err != nil {
					t.Error(err)
				}
				opened <- reader
			}()
			var out []string
			// All processes of the command have the pipe open.
			err := Run(ctx, "exec 9>"+fifo+"; "+tt.line, nil, tt.limit, func(line string) {
				out = append(out, line)
				if tt.cancel {
					cancel()
				}
			})
			if !errors.Is(err, tt.want) || !slices.Contains(out, "started") {
				t.Fatalf("error %v, output %q, want %v", err, out, tt.want)
			}
			if name == "trap" && !slices.Contains(out, "cleaned up") {
				t.Errorf("output %q: SIGKILL came before the command could clean up", out)
			}
			reader := <-opened
			defer reader.Close()
			if n, err := reader.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
	}
}

// A run whose context has ended starts nothing.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "touched")
	if err := Run(ctx, "touch "+file, nil, time.Minute, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}
