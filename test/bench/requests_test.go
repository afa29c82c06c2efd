package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// requestFigures has the requests for pods of one kind in the API server's audit log,
// without watches. Pods are created one after another, so that all requests in between
// belong to one pod.
type requestFigures struct {
	Kind string
	// OwnReady counts the requests of nadra's driver or Multus until the pod is Ready, and
	// Own those until it is gone.
	OwnReady, Own stats.Sample
	// AllReady and All count the requests of all clients but the benchmark.
	AllReady, All stats.Sample
	// Path counts the driver's requests between its read of the claim at Prepare and the
	// end of its hook, and Beside those until network-status is stored, for which the first
	// container waits.
	Path, Beside stats.Sample
	// What lists the own requests of the last pod, for a reader.
	What []string

	kind podKind
}

// auditEvent is a request in the audit log.
type auditEvent struct {
	Verb      string
	UserAgent string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Received  time.Time `json:"requestReceivedTimestamp"`
}

const (
	nadraAccount      = lab.DriverAccount
	controllerAccount = "system:serviceaccount:nadra-system:nadra-controller"
	multusAccount     = "system:serviceaccount:kube-system:multus"
)

// attaches reports whether nadra's driver or Multus has sent the request.
func (e auditEvent) attaches() bool {
	return e.User.Username == nadraAccount || e.User.Username == multusAccount || strings.HasPrefix(e.UserAgent, "multus/")
}

// forPods reports whether the request is on behalf of pods. It excludes the benchmark's own
// requests, and those that nodes and controllers send at any time.
func (e auditEvent) forPods() bool {
	if e.Verb == "watch" || strings.HasPrefix(e.UserAgent, "bench.test") || strings.HasPrefix(e.UserAgent, "kubectl/") {
		return false
	}
	return slices.Contains(podResources, e.ObjectRef.Resource) || e.ObjectRef.Resource == "nodes" && e.attaches()
}

// podResources has the resources of requests on behalf of pods.
var podResources = []string{
	"pods", "bindings", "events", "serviceaccounts", "configmaps",
	"resourceclaims", "resourceclaimtemplates", "resourceslices", "network-attachment-definitions",
}

// requests returns the requests in the audit log during the lives of some pods.
func (s *starter) requests(b *testing.B, lives []podLife) []requestFigures {
	events := readAudit(b)
	hooks := s.attached(b)
	var out []requestFigures
	for _, kind := range podKinds {
		f := requestFigures{Kind: kind.title, kind: kind}
		for _, life := range lives {
			if life.kind == kind {
				f.add(life, hooks[life.name], during(events, life.created, life.gone))
			}
		}
		out = append(out, f)
	}
	return out
}

// during returns the events between two times, in the order of their arrival.
func during(events []auditEvent, from, to time.Time) []auditEvent {
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(events, t, func(e auditEvent, t time.Time) int { return e.Received.Compare(t) })
		return i
	}
	return events[at(from):at(to)]
}

func (f *requestFigures) add(life podLife, h hook, events []auditEvent) {
	var ownReady, own, allReady, all, path, beside float64
	stored := false
	var prepared time.Time
	f.What = nil
	for _, e := range events {
		if !e.forPods() {
			continue
		}
		before := e.Received.Before(life.ready)
		all++
		if before {
			allReady++
		}
		if !e.attaches() {
			continue
		}
		own++
		f.What = append(f.What, fmt.Sprint(e))
		if before {
			ownReady++
		}
		switch {
		case prepared.IsZero() && e.Verb == "get" && e.ObjectRef.Resource == "resourceclaims":
			prepared = e.Received
		case !prepared.IsZero() && e.Received.Before(h.end):
			path++
		}
		if !prepared.IsZero() && !stored && !e.Received.Equal(prepared) {
			beside++
			stored = e.String() == "patch pods/status"
		}
	}
	f.OwnReady, f.Own = append(f.OwnReady, ownReady), append(f.Own, own)
	f.AllReady, f.All = append(f.AllReady, allReady), append(f.All, all)
	if !h.end.IsZero() {
		f.Path, f.Beside = append(f.Path, path), append(f.Beside, beside)
	}
}

// String returns the request in a form for readers.
func (e auditEvent) String() string {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return e.Verb + " " + resource
}

// readAudit returns the API server's audit log so far.
func readAudit(b *testing.B) []auditEvent {
	b.Helper()
	file, err := os.Open(auditFile())
	must(b, err)
	defer file.Close()
	var out []auditEvent
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		must(b, json.Unmarshal(lines.Bytes(), &e))
		out = append(out, e)
	}
	must(b, lines.Err())
	slices.SortFunc(out, func(a, b auditEvent) int { return a.Received.Compare(b.Received) })
	return out
}
