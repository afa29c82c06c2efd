package gate

import (
	"testing"
	"time"
)

func TestWaitLimit(t *testing.T) {
	tests := []struct {
		name            string
		age, wait, want time.Duration
	}{
		{"the first container", 0, time.Minute, time.Minute},
		{"a little later", 20 * time.Second, time.Minute, 40 * time.Second},
		{"the next, after the first has waited", time.Minute, time.Minute, minWait},
		{"near the end", 55 * time.Second, time.Minute, minWait},
		{"days later", 72 * time.Hour, time.Minute, minWait},
		{"a sandbox of the future", -time.Hour, time.Minute, time.Minute},
		{"a short wait", 0, time.Second, time.Second},
		{"a short wait, later", time.Hour, time.Second, time.Second},
		{"no wait", time.Hour, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := WaitLimit(tt.age, tt.wait); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestSandboxProcess(t *testing.T) {
	for path, want := range map[string]int{
		"/proc/4711/ns/net":                 4711,
		"/proc/self/ns/net":                 0,
		"/proc/4711/ns/net/":                0,
		"/proc/4711/ns/pid":                 0,
		"/proc/0/ns/net":                    0,
		"/proc/99999999999999999999/ns/net": 0,
		"/var/run/netns/cni-1":              0,
		"/host/proc/4711/ns/net":            0,
		"4711/ns/net":                       0,
		"/proc/4711":                        0,
		"":                                  0,
	} {
		if pid, ok := SandboxProcess(path); ok != (want != 0) || ok && pid != want {
			t.Errorf("%q: %d, %t; want %d", path, pid, ok, want)
		}
	}
}

func TestStartTime(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	tests := []struct {
		name, stat string
		want       time.Duration // negative: an error
	}{
		{"a plain name", "7 (pause)" + rest, 47110 * time.Millisecond},
		{"a name with spaces and parentheses", "7 (a) S 1) (b" + ")" + rest, 47110 * time.Millisecond},
		{"cut off", "7 (pause) S 1 2 3", -1},
		{"cut off before the start time", "7 (pause) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18", -1},
		{"nothing", "", -1},
		{"not a number", "7 (pause) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := StartTime(tt.stat)
			if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
