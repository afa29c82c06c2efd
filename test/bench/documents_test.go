package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestDocuments renders the documents with made-up figures, so that errors show before half
// an hour of measuring.
func TestDocuments(t *testing.T) {
	ms := stats.Sample{1, 2, 3}
	r := &report{
		Machine: machine{CPUs: 2},
		Gate:    &gateFigures{Gate: ms, Nothing: ms},
		Hook:    []hookFigures{{Case: "macvlan-1", Figures: map[string]float64{"ms/attachment-added": 3}}},
		Beside: []besideFigures{{hookFigures{Case: "macvlan-3", Figures: map[string]float64{
			"ms-libcni": 30, "added-ms-nadra": 1.5, "added-ms-thick": 20, "networks-ms-libcni": 27,
		}}}},
		Commands: []commandFigures{{Command: "scan", Seconds: ms, MiB: ms}},
		Webhook:  &webhookFigures{Plain: ms, Converted: ms, Within: 30},
		Delay:    []delayFigures{{What: "a sandbox", Beside: ms, BesideBrief: ms, Alone: ms, Delay: ms, Start: ms}},
	}
	for _, nodes := range []int{1000, 5000} {
		r.Scale = append(r.Scale, scaleExample(nodes))
	}
	r.RealWrites = &realWrites{Recreated: 2}
	rates := podRates{Pods: 200, Rounds: []bound{{200, 2}}}
	r.Aligned = []alignedFigures{{"a card", rates, rates}}
	for _, kind := range podKinds {
		r.Pods = append(r.Pods, podFigures{Kind: kind.title, Ready: ms, Hook: ms})
	}
	r.Starts = []startFigures{{Kind: podKinds[1].title, Ready: ms}}
	f := requestFigures{Kind: podKinds[1].title}
	f.add(podLife{ready: time.Unix(10, 0)}, hook{end: time.Unix(9, 0)}, []auditEvent{
		asked("get", "resourceclaims", 1), asked("get", "pods", 2), asked("patch", "pods", 11),
	})
	r.Requests = append(r.Requests, f)
	for _, size := range burstSizes {
		for _, kind := range podKinds {
			r.Bursts = append(r.Bursts, burstFigures{Kind: kind.title, Pods: size, Seconds: 3, Ready: ms, Messages: []string{"no"}, KiB: 100, Clients: []clientFigures{
				{Client: "kubelet", Sent: 2, Received: 3, Requests: map[string]float64{"get pods": 2}},
			}})
		}
	}
	r.LatePods = r.Bursts[:1]
	documents, err := r.documents()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var resumed report
	if err := json.Unmarshal(kept, &resumed); err != nil {
		t.Fatal(err)
	}
	again, err := resumed.documents()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents {
		if !bytes.Equal(again[name], text) {
			t.Errorf("%s differs if it is made of figures that were kept:\n%s", name, again[name])
		}
		for _, mistake := range []string{"NaN", "<no value>", "%!"} {
			if strings.Contains(string(text), mistake) {
				t.Errorf("there is %s in %s:\n%s", mistake, name, text)
			}
		}
	}
	var parsed struct {
		Goals map[string]goal `json:"goals"`
	}
	if err := json.Unmarshal(documents["reference/performance.json"], &parsed); err != nil {
		t.Fatal(err)
	}
	for name, met := range map[string]bool{
		"overhead over bare libcni, macvlan-3":                                                             true,  // 1.5 ms of 1.6
		"share of thick Multus' overhead, macvlan-3":                                                       true,  // 0.075
		"hook over libcni, macvlan-1":                                                                      false, // 3 ms
		"API requests between Prepare and first container, " + podKinds[1].title:                           false, // one
		"burst of 100 pods with 3 networks":                                                                true,
		"webhook, 99th percentile":                                                                         false,
		"one NAD changes in a way that devices do not show, slice writes":                                  true,
		"one NAD is deleted and created again, slice writes of a real driver and controller":               true,
		"5000 nodes with slices of their own, 100 NADs, one NAD is deleted, slice writes":                  true,
		"1000 nodes, 100 NADs, one NAD is deleted, slice writes in all":                                    true,
		"5000 nodes, 100 NADs, one NAD is deleted, slice writes in all":                                    false, // two
		"1000 nodes, 100 NADs, one NAD is deleted, sent to all watches, times that of slices of each node": true,
		"5000 nodes, 100 NADs, one NAD is deleted, sent to all watches, times that of slices of each node": false, // 7,000 of 3,000 KiB
		"1000 nodes, 100 NADs, pods with 1 network bound a second, share of a bare driver's":               true,
		"1000 nodes, 100 NADs, pods with 3 networks bound a second, share of a bare driver's":              false, // half
		"1000 nodes, pods with 1 network bound a second, difference between 1 and 200 NADs":                true,
		"1000 nodes, 100 NADs, memory of the API server, times that without slices":                        true,
		"1000 nodes, 100 NADs, memory of the scheduler, times that without slices":                         false, // 1.5
		"burst of 100 pods with 3 networks, beside thick Multus":                                           true,
		"burst of 50 pods with 3 networks, API traffic over a bare driver's":                               true,
	} {
		if g, ok := parsed.Goals[name]; !ok || g.Measured == nil || g.Met != met {
			t.Errorf("goal for %s: %+v, want met=%t", name, g, met)
		}
	}
	for _, name := range []string{"burst of 100 pods with 3 networks", "burst of 100 pods with 3 networks, beside thick Multus", "pod with 3 networks, beside thick Multus, median"} {
		if g := parsed.Goals[name]; g.Floor == nil || !g.FloorMet {
			t.Errorf("goal for %s: %+v, want one that the floor meets", name, g)
		}
	}
}

var updated = flag.Bool("update", false, "write the documents of the figures in docs/reference/performance.json")

// maxFrontWords is the length of the page that answers what nadra costs.
const maxFrontWords = 800

// TestPublished checks that each document is what performance.json's figures make, so that words and figures change
// only in the templates and by measuring, and that the short page is short.
func TestPublished(t *testing.T) {
	var r report
	if err := r.readPublished(); err != nil {
		t.Fatal(err)
	}
	if *updated {
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
	}
	documents, err := r.documents()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(reference(), "sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	sized, err := r.insertSizes(string(page))
	if err != nil {
		t.Fatal(err)
	}
	documents["reference/sizing.md"] = []byte(sized)
	for name, want := range documents {
		got, err := os.ReadFile(filepath.Join(lab.Root(), "docs", name))
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("docs/%s is not made of performance.json (-want +got), write it with go test ./test/bench -update: %v\n%s", name, err, diff)
		}
	}
	if words := len(strings.Fields(string(documents["reference/performance.md"]))); words > maxFrontWords {
		t.Errorf("docs/reference/performance.md has %d words, more than %d", words, maxFrontWords)
	}
}

func asked(verb, resource string, second int64) auditEvent {
	var e auditEvent
	e.Verb, e.ObjectRef.Resource, e.User.Username, e.Received = verb, resource, nadraAccount, time.Unix(second, 0)
	return e
}
