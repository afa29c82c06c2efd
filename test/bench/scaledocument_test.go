package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// ScaleRounds returns the number of rounds.
func (r *report) ScaleRounds() int { return len(r.Scale[0].Offers[0].Pods[0].Rounds) }

// ScalePods returns a constant for the document, and so do the following methods.
func (r *report) ScalePods() int      { return scalePods }
func (r *report) ShareGoal() float64  { return shareGoal }
func (r *report) MemoryGoal() float64 { return memoryGoal }

// Changes returns the figures of both changes of one NAD.
func (f scaleFigures) Changes() []changeFigures { return []changeFigures{f.Change, f.SharedChange} }

// Published returns the median time in which all slices were created, in seconds.
func (f offerFigures) Published() string { return cell(f.Slices.Published.Median()/1000, "%.1f") }

// Bound returns the rate of pods with that many networks, with those of the extreme rounds.
func (f offerFigures) Bound(networks int) string {
	for _, p := range f.Pods {
		if p.Networks == networks {
			return p.String()
		}
	}
	return "–"
}

// Of returns the rate of an offer's pods divided by that of the bare driver's.
func (f scaleFigures) Of(o offerFigures, networks int) string {
	return cell(o.Rate(networks)/f.bare().Rate(networks), "%.2f")
}

// TimesAPIServer returns resident memory as a multiple of that of the API server without slices,
// and TimesScheduler as one of that of the scheduler.
func (f scaleFigures) TimesAPIServer(m processMemory) float64 {
	return m.RSS / f.none().Memory.APIServer.RSS
}

func (f scaleFigures) TimesScheduler(m processMemory) float64 {
	return m.RSS / f.none().Memory.Scheduler.RSS
}

// cell returns a number as a cell of a table.
func cell(value float64, format string) string {
	if math.IsNaN(value) {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

// calculatedNodes is the number of nodes for which figures are calculated from the measured
// ones: three times as many as Kubernetes supports.
const calculatedNodes = 15_000

// size is a row of the table of docs/reference/sizing.md.
type size struct {
	nodes, nads, profiles int

	plain, one, three float64
	// of has the rates as shares of the bare driver's.
	ofOne, ofThree float64
	apiServer      processMemory
	scheduler      processMemory
	// slices is their size in etcd, in KiB.
	slices float64
}

// rowOf returns the row of a measured cluster.
func rowOf(f scaleFigures, o *offerFigures) size {
	row := size{
		nodes: f.Nodes, nads: o.NADs, profiles: o.Profiles, plain: o.Rate(0), one: o.Rate(1), three: o.Rate(3),
		ofOne: o.Rate(1) / f.bare().Rate(1), ofThree: o.Rate(3) / f.bare().Rate(3),
		apiServer: unmeasured, scheduler: unmeasured, slices: o.KiB(f.Nodes),
	}
	if o.Memory != nil {
		row.apiServer, row.scheduler = o.Memory.APIServer, o.Memory.Scheduler
	}
	return row
}

var unmeasured = processMemory{math.NaN(), math.NaN(), math.NaN()}

// calculate returns the row of calculatedNodes on the straight line through two measured rows. What
// did not grow between them does not shrink beyond them.
func calculate(first, last size) size {
	line := func(first, last, a, b float64) float64 {
		slope := max(0, (b-a)/(last-first))
		return b + slope*(calculatedNodes-last)
	}
	on := func(value func(size) float64) float64 {
		return line(float64(first.nodes), float64(last.nodes), value(first), value(last))
	}
	// Time adds up, rates do not.
	rate := func(value func(size) float64) float64 { return 1 / on(func(s size) float64 { return 1 / value(s) }) }
	memory := func(value func(size) processMemory) processMemory {
		m := processMemory{
			Live: on(func(s size) float64 { return value(s).Live }),
			RSS:  on(func(s size) float64 { return value(s).RSS }),
			Peak: on(func(s size) float64 { return value(s).Peak }),
		}
		m.Peak = max(m.Peak, m.RSS)
		return m
	}
	return size{
		nodes: calculatedNodes, nads: last.nads, profiles: last.profiles,
		plain: rate(func(s size) float64 { return s.plain }),
		one:   rate(func(s size) float64 { return s.one }),
		three: rate(func(s size) float64 { return s.three }),
		ofOne: math.NaN(), ofThree: math.NaN(),
		apiServer: memory(func(s size) processMemory { return s.apiServer }),
		scheduler: memory(func(s size) processMemory { return s.scheduler }),
		slices:    on(func(s size) float64 { return s.slices }),
	}
}

// String returns the row as Markdown.
func (s size) String() string {
	nodes := fmt.Sprint(s.nodes)
	if s.nodes == calculatedNodes {
		nodes += ", calculated"
	}
	of := "each node"
	if s.profiles > 0 {
		of = counted(s.profiles, "profile")
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", nodes, of, s.nads,
		cell(s.plain, "%.3g"), share(s.one, s.ofOne), share(s.three, s.ofThree), s.apiServer, s.scheduler, cell(s.slices, "%.0f"))
}

// share returns a rate and, in brackets, the share of the bare driver's.
func share(rate, of float64) string {
	if math.IsNaN(of) {
		return cell(rate, "%.3g")
	}
	return fmt.Sprintf("%.3g (%.2f)", rate, of)
}

// String returns the resident memory and its peak.
func (m processMemory) String() string {
	if math.IsNaN(m.RSS) {
		return "–"
	}
	return fmt.Sprintf("%.0f / %.0f", m.RSS, m.Peak)
}

// The marks around the table in docs/reference/sizing.md.
const (
	sizesBegin = "<!-- sizes: begin, written by make bench -->\n"
	sizesEnd   = "<!-- sizes: end -->\n"
)

// sizes returns the table.
func (r *report) sizes() string {
	var out strings.Builder
	out.WriteString("\n| Nodes | Slices of | NADs | Pods bound a second: without claims | With 1 network (of the bare driver's) | With 3 networks (of the bare driver's) | " +
		"API server, MiB: at rest / peak | Scheduler, MiB: at rest / peak | Slices in etcd, KiB |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range r.Scale {
		for i := range f.Offers {
			if o := &f.Offers[i]; o.NADs > 0 {
				out.WriteString(rowOf(f, o).String())
			}
		}
	}
	if n := len(r.Scale); n > 1 && r.Scale[0].Nodes < r.Scale[n-1].Nodes {
		first, last := r.Scale[0], r.Scale[n-1]
		out.WriteString(calculate(rowOf(first, first.own()), rowOf(last, last.own())).String())
		out.WriteString(calculate(rowOf(first, first.shared(usualNADs)), rowOf(last, last.shared(usualNADs))).String())
	}
	fmt.Fprintf(&out, "\nMeasured %s.\n\n", r.ScaleSource)
	return out.String()
}

// insertSizes replaces the table of docs/reference/sizing.md.
func (r *report) insertSizes(page string) (string, error) {
	before, rest, begins := strings.Cut(page, sizesBegin)
	_, after, ends := strings.Cut(rest, sizesEnd)
	if !begins || !ends {
		return "", errors.New("docs/reference/sizing.md has no marks for the table of sizes")
	}
	return before + sizesBegin + r.sizes() + sizesEnd + after, nil
}

// writeSizes writes the table of docs/reference/sizing.md.
func (r *report) writeSizes() error {
	path := filepath.Join(reference(), "sizing.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := r.insertSizes(string(page))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// scaleExample returns made-up figures of a cluster in which a pod takes the scheduler more time
// the more nodes there are.
func scaleExample(nodes int) scaleFigures {
	f := scaleFigures{Nodes: nodes, Etcd: 60, Change: changeFigures{
		Nodes: nodes, Watches: 10, Watched: 3000, Over: 6, Writes: nodes, Refused: 3, JSON: 3, Stored: 2, Request: 2, Sent: 5.9, Answered: 6, Peak: 200, P50: 5, P99: 50, Within: 100,
	}}
	f.SharedChange = f.Change
	f.SharedChange.Writes, f.SharedChange.Watched = 1+nodes/5000, 2000+float64(nodes)
	perNode := float64(nodes) / 1000
	offers := []*offer{noOffer(), bareOffer(), nadraOffer(usualNADs, nil)}
	for _, n := range sharedNADs {
		offers = append(offers, nadraOffer(n, nil, profile{}))
	}
	for _, o := range offers {
		offered := newOfferFigures(o)
		for i := range offered.Pods {
			seconds := 10 * perNode
			if o.driver == lab.DriverName && offered.Pods[i].Networks == 3 {
				seconds *= 2
			}
			for _, noise := range []float64{1.1, 1, 0.9} {
				offered.Pods[i].Rounds = append(offered.Pods[i].Rounds, bound{scalePods, seconds * noise})
			}
		}
		if o.driver != "" {
			offered.Slices = sliceFigures{Count: nodes, Published: stats.Sample{900, 1000, 1100}, JSON: 3, Stored: 2}
		}
		if o.weighed {
			offered.Memory = &scaleMemory{processMemory{100 * perNode, 200 * perNode, 300 * perNode}, processMemory{50 * perNode, 60 * perNode, 70 * perNode}}
		}
		f.Offers = append(f.Offers, offered)
	}
	f.shared(usualNADs).Memory.Scheduler.RSS *= 1.5
	return f
}

// TestSizes renders the table of docs/reference/sizing.md from made-up figures.
func TestSizes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(reference(), "sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := &report{ScaleSource: "today", Scale: []scaleFigures{scaleExample(1000), scaleExample(5000)}}
	text, err := r.insertSizes(string(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| 1000 | 1 profile | 1 | – | 20 (1.00) | – | – | – | 2 |\n",
		"| 1000 | 1 profile | 100 | 20 | 20 (1.00) | 10 (0.50) | 200 / 300 | 90 / 70 | 2 |\n",
		"| 5000 | each node | 100 | 4 | 4 (1.00) | 2 (0.50) | 1000 / 1500 | 300 / 350 | 10000 |\n",
		"| 15000, calculated | each node | 100 | 1.33 | 1.33 | 0.667 | 3000 / 4500 | 900 / 1050 | 30000 |\n",
		"| 15000, calculated | 1 profile | 100 | 1.33 | 1.33 | 0.667 | 3000 / 4500 | 1350 / 1350 | 2 |\n",
	} {
		if !strings.Contains(text, row) {
			t.Errorf("no row %q in\n%s", row, r.sizes())
		}
	}
	again, err := r.insertSizes(text)
	if err != nil || again != text {
		t.Errorf("inserting the same table again changes the page (%v)", err)
	}
}
