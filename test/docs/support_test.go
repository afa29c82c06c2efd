package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
	"github.com/nadra-dev/nadra/test/support"
)

const components = "test/cluster/components/"

// evidence is what shows that rows of package support work.
type evidence struct {
	// targets are the Makefile's targets, and versions, by lane of make lanes, what it runs.
	targets  []string
	versions map[string]map[support.Component]string
	// pins are all versions that a lane can be told to run.
	pins map[support.Component][]string
	runs []support.Run
}

// readEvidence reads the Makefile, the pinned versions and the recorded runs.
func readEvidence(t *testing.T) evidence {
	t.Helper()
	e := evidence{versions: map[string]map[support.Component]string{}, pins: map[support.Component][]string{}}
	if err := json.Unmarshal([]byte(read(t, "docs/reference/support-runs.json")), &e.runs); err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "Makefile")
	for _, m := range regexp.MustCompile(`(?m)^([a-z][\w.\- ]*):`).FindAllStringSubmatch(makefile, -1) {
		e.targets = append(e.targets, strings.Fields(m[1])...)
	}
	for _, lane := range strings.Fields(variable(t, makefile, "CLUSTER_LANES")) {
		chosen := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(lane)+`: export (NADRA_\w+) := (\S+)$`).FindAllStringSubmatch(makefile, -1) {
			chosen[m[1]] = m[2]
		}
		e.versions[lane] = versionsOf(t, chosen)
	}
	for _, versions := range e.versions {
		for component, version := range versions {
			e.pins[component] = append(e.pins[component], version)
		}
	}
	for _, name := range modfiles(t, "kubernetes") {
		e.pins[support.Kubernetes] = append(e.pins[support.Kubernetes], required(t, name, "k8s.io/kubernetes"))
	}
	for _, name := range modfiles(t, "containerd") {
		e.pins[support.Containerd] = append(e.pins[support.Containerd], required(t, name, "github.com/containerd/containerd/v2"))
	}
	for _, choice := range strings.Fields(variable(t, makefile, "VERSIONS")) {
		if minor, found := strings.CutPrefix(choice, "kubelet-"); found {
			e.pins[support.Kubelet] = append(e.pins[support.Kubelet], required(t, "kubernetes/v"+minor+".mod", "k8s.io/kubernetes"))
		}
	}
	return e
}

// versionsOf returns what a lane runs with these variables.
func versionsOf(t *testing.T, chosen map[string]string) map[support.Component]string {
	t.Helper()
	versions := map[support.Component]string{
		support.Kubernetes: required(t, "kubernetes/go.mod", "k8s.io/kubernetes"),
		support.Runc:       required(t, "runc/go.mod", "github.com/opencontainers/runc"),
	}
	if minor := chosen["NADRA_EMULATE"]; minor != "" {
		versions[support.Emulated] = minor
	}
	switch chosen["NADRA_FAMILIES"] {
	case "ipv6":
		versions[support.IPv6] = ""
	case "dual":
		versions[support.DualStack] = ""
	}
	if chosen["NADRA_RUNTIME"] == "crio" {
		versions[support.CRIO] = required(t, "crio/go.mod", "github.com/cri-o/cri-o")
		return versions
	}
	file := "containerd/" + cmp.Or(chosen["NADRA_CONTAINERD"], "go") + ".mod"
	versions[support.Containerd] = required(t, file, "github.com/containerd/containerd/v2")
	versions[support.NRI] = required(t, file, "github.com/containerd/nri")
	return versions
}

// read returns the text of a file of the project.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// variable returns the value of a variable of the Makefile.
func variable(t *testing.T, makefile, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindStringSubmatch(makefile)
	if m == nil {
		t.Fatalf("the Makefile does not set %s", name)
	}
	return m[1]
}

// modfiles lists the files like go.mod of a component.
func modfiles(t *testing.T, component string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(components), component, "*.mod"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d versions of %s: %v", len(files), component, err)
	}
	for _, file := range files {
		names = append(names, component+"/"+filepath.Base(file))
	}
	return names
}

// required returns the version of a module in a file like go.mod, without its v.
func required(t *testing.T, file, module string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^(?:require|\t)? ?` + regexp.QuoteMeta(module) + ` v(\S+)`).FindStringSubmatch(read(t, components+file))
	if m == nil {
		t.Fatalf("%s does not require %s", file, module)
	}
	return m[1]
}

// tested returns the versions of a row that lanes have shown to work: those that make lanes
// runs, and those of green recorded runs. Of a component that the lanes pin, a recorded
// version counts while it is pinned.
func (e evidence) tested(row support.Row) []string {
	versions := map[string]bool{}
	for _, lane := range row.Lanes {
		if version, found := e.versions[lane][row.Component]; found && row.Has(version) {
			versions[version] = true
		}
	}
	for _, run := range e.runs {
		for _, version := range run.VersionsOf(row) {
			if run.Green() && e.current(row.Component, version) {
				versions[version] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(versions))
}

// current reports whether the lanes still run a version.
func (e evidence) current(component support.Component, version string) bool {
	pins, found := e.pins[component]
	return !found || slices.Contains(pins, version)
}

// status returns a row's status for the pages.
func (e evidence) status(row support.Row) string {
	versions := e.tested(row)
	if len(versions) == 0 || row.Status == support.NotSupported {
		return string(row.Status)
	}
	return strings.TrimSuffix("**tested**: "+strings.Join(versions, ", "), ": ")
}

// lastRun describes the last run of a row.
func (e evidence) lastRun(row support.Row) string {
	var parts []string
	for _, lane := range row.Lanes {
		if version, found := e.versions[lane][row.Component]; found && row.Has(version) {
			parts = []string{"each `make lanes`"}
		}
	}
	var last support.Run
	for _, run := range e.runs {
		if len(run.VersionsOf(row)) > 0 && run.Date >= last.Date {
			last = run
		}
	}
	if last.Date != "" {
		parts = append(parts, fmt.Sprintf("%s, %s, %d/%d", last.Date, last.Lane, last.Passed, last.Tests))
	}
	return strings.Join(parts, "; ")
}

// table returns a table of rows for docs/reference/support.md.
func (e evidence) table(first string, rows []support.Row) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| %s | Status | Remarks | Lanes | Last run |\n| --- | --- | --- | --- | --- |\n", first)
	for _, row := range rows {
		lanes := ""
		if len(row.Lanes) > 0 {
			lanes = "`" + strings.Join(row.Lanes, "`, `") + "`"
		}
		writeRow(&out, row.Name(), e.status(row), row.Remark, lanes, e.lastRun(row))
	}
	return out.String()
}

// writeRow writes a row of a table.
func writeRow(out *strings.Builder, cells ...string) {
	for _, cell := range cells {
		if cell != "" {
			cell += " "
		}
		fmt.Fprintf(out, "| %s", cell)
	}
	out.WriteString("|\n")
}

// runtimes returns the table of runtimes for docs/install/runtimes.md.
func (e evidence) runtimes() string {
	var out strings.Builder
	out.WriteString("| Runtime | NRI | CDI | Differences that nadra sees | Support |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range support.RuntimeRows() {
		if row.NRI != "" {
			writeRow(&out, row.Name(), row.NRI, row.CDI, row.Differences, e.status(row))
		}
	}
	return out.String()
}

// fill replaces the part of a page between the markers of a table.
func fill(t *testing.T, page, name, table string) string {
	t.Helper()
	begin := "<!-- begin: " + name + ", generated from test/support/table.go by go test ./test/docs -run TestSupportIsShown -update -->\n"
	head, rest, begins := strings.Cut(page, begin)
	_, tail, ends := strings.Cut(rest, reasonsEnd)
	if !begins || !ends {
		t.Fatalf("there are no lines %q and %q", begin, reasonsEnd)
	}
	return head + begin + table + reasonsEnd + tail
}

// TestSupportIsShown compares the generated tables of the pages with the table of package
// support, what the lanes run, and the recorded runs.
func TestSupportIsShown(t *testing.T) {
	e := readEvidence(t)
	page := read(t, "docs/reference/support.md")
	page = fill(t, page, "Kubernetes", e.table("Version", support.KubernetesRows()))
	page = fill(t, page, "runtimes", e.table("Runtime", support.RuntimeRows()))
	page = fill(t, page, "nodes", e.table("Node", support.NodeRows()))
	golden.Check(t, filepath.Join(root, "docs", "reference", "support.md"), page)
	golden.Check(t, filepath.Join(root, "docs", "install", "runtimes.md"), fill(t, read(t, "docs/install/runtimes.md"), "runtimes", e.runtimes()))
}

// TestSupportNamesWhatIsRun checks that rows name lanes that exist, that every pinned version
// has a row, with a lane unless it is not supported, and that no recorded run is red.
func TestSupportNamesWhatIsRun(t *testing.T) {
	e := readEvidence(t)
	rows := slices.Concat(support.KubernetesRows(), support.RuntimeRows(), support.NodeRows())
	for _, row := range rows {
		for _, lane := range row.Lanes {
			if !slices.Contains(e.targets, lane) {
				t.Errorf("%s names the lane %s, which the Makefile does not have", row.Name(), lane)
			}
		}
	}
	for component, versions := range e.pins {
		for _, version := range versions {
			row, found := support.Find(component, version)
			if !found || len(row.Lanes) == 0 && row.Status != support.NotSupported {
				t.Errorf("%s %s is pinned, and package support has no row with a lane for it (%s)", component, version, row.Name())
			}
		}
	}
	for _, run := range e.runs {
		if !run.Green() || !slices.Contains(e.targets, run.Lane) {
			t.Errorf("docs/reference/support-runs.json: %s %s of %s has %d failures: mend it and record it again", run.Lane, run.With, run.Commit, run.Failures)
		}
	}
}

// TestSupportNamesPinnedVersions checks the versions that the handwritten sections name.
func TestSupportNamesPinnedVersions(t *testing.T) {
	e := readEvidence(t)
	names := map[string][]string{
		"etcd":        {required(t, "kubernetes/go.mod", "go.etcd.io/etcd/server/v3")},
		"CNI plugins": {required(t, "cni/go.mod", "github.com/containernetworking/plugins")},
		"whereabouts": {required(t, "whereabouts/go.mod", "github.com/k8snetworkplumbingwg/whereabouts")},
		"Karpenter":   {required(t, "karpenter/go.mod", "sigs.k8s.io/karpenter")},
	}
	for _, name := range modfiles(t, "multus") {
		names["Multus"] = append(names["Multus"], required(t, name, "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"))
	}
	for component, versions := range e.pins {
		names[string(component)] = versions
	}
	mention := regexp.MustCompile(`(` + strings.Join(slices.Collect(maps.Keys(names)), "|") + `) v?(\d+\.\d+\.\d+)`)
	named := map[string]bool{}
	for _, s := range pages(t)["docs/reference/support.md"].sections {
		if s.heading != "The lanes" && s.heading != "Multus and what is around it" {
			continue
		}
		for _, m := range mention.FindAllStringSubmatch(s.text, -1) {
			named[m[1]] = true
			if !slices.Contains(names[m[1]], m[2]) {
				t.Errorf("docs/reference/support.md, %s: %s: the lanes run %s", s.heading, m[0], names[m[1]])
			}
		}
	}
	for _, name := range []string{"etcd", "CNI plugins", "Multus", "whereabouts", "Karpenter"} {
		if !named[name] {
			t.Errorf("docs/reference/support.md does not name the version of %s", name)
		}
	}
}

// TestTested checks what counts as tested.
func TestTested(t *testing.T) {
	e := evidence{
		versions: map[string]map[support.Component]string{"ci": {support.Kubernetes: "1.37.2"}},
		pins:     map[support.Component][]string{support.Kubernetes: {"1.37.2", "1.36.3"}},
		runs: []support.Run{
			{Lane: "long", Date: "2026-11-24", Passed: 3, Tests: 3, Ran: []string{"Kubernetes 1.36.3", "Linux 6.18.1", "amd64"}},
			{Lane: "long", With: "NADRA_KUBERNETES=1.35", Date: "2026-11-23", Passed: 3, Tests: 3, Ran: []string{"Kubernetes 1.35.4"}},
			{Lane: "long", With: "NADRA_KUBERNETES=1.34", Date: "2026-11-23", Failures: 1, Tests: 3, Ran: []string{"Kubernetes 1.34.4"}},
		},
	}
	row := func(component support.Component, from, before, lane string) support.Row {
		return support.Row{Component: component, From: from, Before: before, Status: support.Expected, Lanes: []string{lane}}
	}
	for name, test := range map[string]struct {
		row          support.Row
		status, last string
	}{
		"by make lanes":             {row(support.Kubernetes, "1.37", "1.38", "ci"), "**tested**: 1.37.2", "each `make lanes`"},
		"another lane":              {row(support.Kubernetes, "1.37", "1.38", "long"), "expected", ""},
		"by a record":               {row(support.Kubernetes, "1.36", "1.37", "long"), "**tested**: 1.36.3", "2026-11-24, long, 3/3"},
		"no longer pinned":          {row(support.Kubernetes, "1.35", "1.36", "long"), "expected", "2026-11-23, long, 3/3"},
		"red":                       {row(support.Kubernetes, "1.34", "1.35", "long"), "expected", "2026-11-23, long, 0/3"},
		"not pinned by the project": {row(support.Linux, "6.18", "6.19", "long"), "**tested**: 6.18.1", "2026-11-24, long, 3/3"},
		"without a version":         {row("amd64", "", "", "long"), "**tested**", "2026-11-24, long, 3/3"},
	} {
		if status, last := e.status(test.row), e.lastRun(test.row); status != test.status || last != test.last {
			t.Errorf("%s: %q, %q, want %q, %q", name, status, last, test.status, test.last)
		}
	}
}
