package bench

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clientFigures has what one client of the API server has cost for each pod.
type clientFigures struct {
	Client string
	// Sent and Received are KiB on the client's connections, with everything that TLS and
	// HTTP/2 add.
	Sent, Received float64
	// Requests counts requests, by verb and resource, and Watches the watches that the client
	// has open.
	Requests map[string]float64
}

// Most names the client's most frequent requests.
func (c clientFigures) Most(n int) string {
	names := slices.SortedFunc(maps.Keys(c.Requests), func(x, y string) int {
		return cmp.Or(cmp.Compare(c.Requests[y], c.Requests[x]), cmp.Compare(x, y))
	})
	var parts []string
	for _, name := range names[:min(n, len(names))] {
		if c.Requests[name] >= 0.05 {
			parts = append(parts, fmt.Sprintf("%s %.1f", name, c.Requests[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// All returns the number of requests. It adds them in one order, because the last digit of a sum depends on it.
func (c clientFigures) All() (all float64) {
	for _, what := range slices.Sorted(maps.Keys(c.Requests)) {
		all += c.Requests[what]
	}
	return all
}

// onWire has the bytes that a program has sent to the API server, and received.
type onWire struct{ sent, received float64 }

// connection is one of a program's connections to the API server.
type connection struct{ program, ports string }

// connectionFigures find the figures of a connection in the output of ss.
var (
	connectionPorts   = regexp.MustCompile(`^\s*\d+\s+\d+\s+(\S+)\s+(\S+:443)\s`)
	connectionProgram = regexp.MustCompile(`users:\(\("([^"]+)"`)
	connectionSent    = regexp.MustCompile(`bytes_acked:(\d+)`)
	connectionGot     = regexp.MustCompile(`bytes_received:(\d+)`)
)

// connections reads the kernel's counters of all connections to the API server, from the
// clients' side: those of programs on nodes, of the control plane and of the benchmark.
func (t *trio) connections(b *testing.B) map[connection]onWire {
	b.Helper()
	args := []string{"-tinpHO", "state", "established", "dport", "=", ":443"}
	here, err := exec.CommandContext(b.Context(), "ss", args...).Output()
	must(b, err)
	out := map[connection]onWire{}
	addConnections(out, "", string(here))
	add := func(machine string, text []byte, err error) {
		must(b, err)
		addConnections(out, machine, string(text))
	}
	for _, node := range t.Cluster.Nodes() {
		text, err := node.Exec(b.Context(), "ss", args...)
		add(node.Name(), text, err)
	}
	control := t.Cluster.ControlPlane()
	text, err := control.Exec(b.Context(), "ss", args...)
	add(control.Name(), text, err)
	return out
}

// addConnections adds the connections in the output of ss on a machine.
func addConnections(out map[connection]onWire, machine, text string) {
	for line := range strings.Lines(text) {
		ports, program := connectionPorts.FindStringSubmatch(line), connectionProgram.FindStringSubmatch(line)
		if ports == nil || program == nil {
			continue
		}
		key := connection{program[1], machine + " " + ports[1] + " " + ports[2]}
		out[key] = onWire{count(connectionSent, line), count(connectionGot, line)}
	}
}

// count returns the number that a pattern finds, or 0.
func count(pattern *regexp.Regexp, line string) float64 {
	match := pattern.FindStringSubmatch(line)
	if match == nil {
		return 0
	}
	n, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return 0
	}
	return n
}

// clientsSince returns what each client has cost for each pod since an earlier reading, the
// most expensive first. Connections that were closed meanwhile are missing.
func (t *trio) clientsSince(b *testing.B, before map[connection]onWire, from time.Time, pods int) []clientFigures {
	b.Helper()
	byName := map[string]*clientFigures{}
	client := func(name string) *clientFigures {
		if byName[name] == nil {
			byName[name] = &clientFigures{Client: name, Requests: map[string]float64{}}
		}
		return byName[name]
	}
	for key, now := range t.connections(b) {
		c := client(key.program)
		c.Sent += (now.sent - before[key].sent) / 1024 / float64(pods)
		c.Received += (now.received - before[key].received) / 1024 / float64(pods)
	}
	for _, e := range during(readAudit(b), from, time.Now()) {
		what := fmt.Sprint(e)
		client(e.program()).Requests[what] += 1 / float64(pods)
	}
	out := make([]clientFigures, 0, len(byName))
	for _, c := range byName {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(x, y clientFigures) int {
		return cmp.Or(cmp.Compare(y.Sent+y.Received, x.Sent+x.Received), cmp.Compare(x.Client, y.Client))
	})
	return out
}

// program returns the name of the program that has sent a request. It is the name by which
// the kernel knows the process, which has 15 characters at most.
func (e auditEvent) program() string {
	name, _, _ := strings.Cut(e.UserAgent, "/")
	return name[:min(15, len(name))]
}
