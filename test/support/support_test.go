package support

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
)

// TestFind checks the rows of versions at the borders of ranges.
func TestFind(t *testing.T) {
	for _, test := range []struct {
		component Component
		version   string
		want      string
	}{
		{Kubernetes, "v1.33.9", "Kubernetes before 1.34"},
		{Kubernetes, "v1.34.0", "Kubernetes 1.34"},
		{Kubernetes, "v1.35.6+k3s1", "Kubernetes 1.35"},
		{Kubernetes, "1.34", "Kubernetes 1.34"},
		{Kubernetes, "v1.39.0-alpha.1", "Kubernetes 1.38 and later"},
		{Containerd, "1.6.9", "containerd before 1.7"},
		{Containerd, "1.7.34", "containerd 1.7"},
		{Containerd, "2.0.10", "containerd 2.0"},
		{Containerd, "2.2.5", "containerd 2.1 to 2.2.5"},
		{Containerd, "2.2.6", "containerd 2.2.6 or a later 2.2"},
		{Containerd, "2.3.2-k3s1", "containerd 2.3.0 to 2.3.2"},
		{Containerd, "2.3.3", "containerd 2.3.3 or a later 2.3"},
		{CRIO, "1.35.6", "CRI-O 1.34 to 1.35"},
		{Linux, "5.10.0-28-amd64", "Linux before 5.14"},
		{Linux, "5.14.0-427.el9.x86_64", "Linux 5.14 and later"},
		{Linux, "6.12.43+deb13-amd64", "Linux 6.12"},
		{OfRuntime("docker"), "27.1", "Docker (cri-dockerd) and others"},
		{Containerd, "main", ""},
	} {
		t.Run(fmt.Sprint(test.component, " ", test.version), func(t *testing.T) {
			row, found := Find(test.component, test.version)
			if row.Name() != test.want || found != (test.want != "") {
				t.Errorf("%q (%t), want %q", row.Name(), found, test.want)
			}
		})
	}
}

// TestTable checks that each version of what doctor asks about has a row, and that doctor says what the
// row says.
func TestTable(t *testing.T) {
	for c, check := range map[Component]struct {
		id   string
		node func(version string) doctor.Node
	}{
		Kubernetes: {"kubelet-version", func(version string) doctor.Node { return doctor.Node{Name: version, Kubelet: "v" + version} }},
		Containerd: {"runtime-version", func(version string) doctor.Node {
			return doctor.Node{Name: version, Runtime: "containerd://" + version}
		}},
		CRIO:  {"runtime-version", func(version string) doctor.Node { return doctor.Node{Name: version, Runtime: "cri-o://" + version} }},
		Linux: {"kernel-version", func(version string) doctor.Node { return doctor.Node{Name: version, Kernel: version} }},
	} {
		var cluster doctor.Capabilities
		for major := range 10 {
			for minor := range 60 {
				for patch := range 10 {
					cluster.Nodes = append(cluster.Nodes, check.node(fmt.Sprintf("%d.%d.%d", major, minor, patch)))
				}
			}
		}
		for _, said := range doctor.Diagnose(cluster) {
			if said.Title != check.id {
				continue
			}
			row, found := Find(c, said.Object.Name)
			if want := cmp.Or(row.Doctor, "ok"); !found || string(said.Severity) != want {
				t.Fatalf("%s %s: doctor says %s, the row %q says %s", c, said.Object.Name, said.Severity, row.Name(), want)
			}
		}
	}
	names := map[string]bool{}
	for _, row := range table() {
		if names[row.Name()] || row.Status == "" {
			t.Errorf("%s is there twice, or has no status", row.Name())
		}
		names[row.Name()] = true
	}
}

func TestRuns(t *testing.T) {
	older := Run{Lane: "e2e-core", With: "NADRA_KUBERNETES=1.36", Tests: 3, Failures: 1, Ran: []string{"Kubernetes 1.36.3", "amd64"}}
	newer := Run{Lane: "e2e-core", With: "NADRA_KUBERNETES=1.36", Passed: 3, Tests: 3, Ran: older.Ran}
	other := Run{Lane: "e2e-core", Ran: []string{"Kubernetes 1.37.2"}}
	got := Record(Record([]Run{older}, other), newer)
	if len(got) != 2 || got[0].With != "" || !got[1].Green() || older.Green() || other.Green() {
		t.Errorf("recorded %+v", got)
	}
	for _, test := range []struct {
		row  Row
		want string
	}{
		{Row{Component: Kubernetes, From: "1.36", Before: "1.37", Lanes: []string{"e2e-core"}}, `["1.36.3"]`},
		{Row{Component: Kubernetes, From: "1.36", Before: "1.37", Lanes: []string{"e2e-node"}}, "[]"},
		{Row{Component: Kubernetes, From: "1.37", Before: "1.38", Lanes: []string{"e2e-core"}}, "[]"},
		{Row{Component: "amd64", Lanes: []string{"e2e-core"}}, `[""]`},
		{Row{Component: "arm64", Lanes: []string{"e2e-core"}}, "[]"},
	} {
		if got := fmt.Sprintf("%q", newer.VersionsOf(test.row)); got != test.want {
			t.Errorf("%s: %s, want %s", test.row.Name(), got, test.want)
		}
	}
}
