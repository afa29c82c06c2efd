//go:build e2e

package faults

import (
	"regexp"
	"strings"
	"testing"
)

// unasked reports whether a container that ran without a network is an ephemeral one that the runtime created while no
// driver was connected to it, and counts it. No claim brings the gate into such a container, and NRI starts it if
// there is nobody who could (docs/concepts/gate.md).
func (s *suite) unasked(f finding) bool {
	if f.container != debugContainer || f.gated || f.id == "" {
		return false
	}
	log, err := s.runtimeLog()
	if err != nil || !createdUnasked(log, f.id) {
		return false
	}
	s.note("no driver was connected when ephemeral container %.12s of pod %s was created", f.id, f.pod)
	s.upstream.unasked++
	return true
}

// Lines of the runtimes' logs: containerd names a container that it creates by its sandbox and name, CRI-O by the request.
var (
	creating = regexp.MustCompile(`CreateContainer within sandbox \\"(\w+)\\" for container name:\\"(\S+?)\\"|Creating container: .*" id=(\S+)`)
	created  = regexp.MustCompile(`CreateContainer within sandbox \\"(\w+)\\" for name:\\"(\S+?)\\".* returns container id \\"(\w+)|Created container (\w+): .*" id=(\S+)`)
)

// createdUnasked reports whether by a runtime's log there was a moment without a connected driver while it created a container.
func createdUnasked(log, id string) bool {
	connected := 0
	alone := map[string]bool{} // by what is being created
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, `msg="starting containerd"`), strings.Contains(line, `msg="Starting CRI-O, `):
			connected = 0 // without a line about the connections of a runtime that was killed
		case strings.Contains(line, `plugin \"90-nadra\" connected`):
			connected++
		case strings.Contains(line, `connection to plugin \"90-nadra\" closed`):
			connected = max(0, connected-1)
		}
		if m := creating.FindStringSubmatch(line); m != nil {
			alone[m[1]+m[2]+m[3]] = false
		}
		if connected == 0 {
			for key := range alone {
				alone[key] = true
			}
		}
		if m := created.FindStringSubmatch(line); m != nil {
			key := m[1] + m[2] + m[5]
			if m[3]+m[4] == id {
				return alone[key]
			}
			delete(alone, key)
		}
	}
	return false
}

func TestCreatedUnasked(t *testing.T) {
	const (
		connect = `level=info msg="plugin \"90-nadra\" connected and synchronized"` + "\n"
		closed  = `level=info msg="connection to plugin \"90-nadra\" closed"` + "\n"
		begin   = `level=info msg="CreateContainer within sandbox \"9125b5\" for container name:\"debug\""` + "\n"
		end     = `level=info msg="CreateContainer within sandbox \"9125b5\" for name:\"debug\" returns container id \"e6c997\""` + "\n"
		killed  = `level=info msg="starting containerd" revision= version=v2.4.2` + "\n"
		crio    = `level=info msg="Starting CRI-O, version: 1.36.3, git: unknown(clean)"` + "\n"
		other   = `level=info msg="CreateContainer within sandbox \"9125b5\" for container name:\"main\"  attempt:9"` + "\n"
		begun   = `level=info msg="Creating container: faults/a/debug" id=0c3e-1 name=/runtime.v1.RuntimeService/CreateContainer` + "\n"
		done    = `level=info msg="Created container e6c997: faults/a/debug" id=0c3e-1 name=/runtime.v1.RuntimeService/CreateContainer` + "\n"
	)
	for what, tt := range map[string]struct {
		log  string
		want bool
	}{
		"no driver":                                     {connect + closed + begin + end, true},
		"it ended meanwhile":                            {connect + begin + closed + end, true},
		"another one came meanwhile":                    {connect + closed + begin + connect + end, true},
		"connected":                                     {connect + begin + end, false},
		"connected again":                               {connect + closed + connect + begin + end, false},
		"it ended before another container":             {connect + begin + end + closed + other, false},
		"two are connected, and one ends":               {connect + connect + closed + begin + end, false},
		"the runtime was killed while it was connected": {connect + killed + begin + end, true},
		"and its next driver ended":                     {connect + killed + connect + closed + begin + end, true},
		"and its next driver is connected":              {connect + killed + connect + begin + end, false},
		"CRI-O was killed, and its next driver ended":   {connect + crio + connect + closed + begun + done, true},
		"CRI-O, no driver":                              {connect + closed + begun + done, true},
		"CRI-O, connected":                              {connect + begun + done, false},
		"another container":                             {connect + closed + strings.ReplaceAll(begin+end, "e6c997", "000000"), false},
	} {
		if got := createdUnasked(tt.log, "e6c997"); got != tt.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
