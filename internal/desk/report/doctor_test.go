package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

func doctorReport(t *testing.T) *doctor.Report {
	t.Helper()
	text, err := os.ReadFile("testdata/capabilities.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := doctor.ParseCapabilities(text)
	if err != nil {
		t.Fatal(err)
	}
	return doctor.NewReport(*c)
}

func TestDoctorGolden(t *testing.T) {
	r := doctorReport(t)
	for _, format := range Doctor.Names() {
		var b strings.Builder
		if err := Doctor.Write(&b, format, r); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "doctor."+format), b.String())
	}
}

func TestDoctorUnknownFormat(t *testing.T) {
	err := Doctor.Write(&strings.Builder{}, "csv", doctorReport(t))
	if err == nil || !strings.Contains(err.Error(), "table, json, yaml") {
		t.Errorf("the error is %v", err)
	}
}

// TestDoctorIsRobust checks that errors of the writer are returned, and escape sequences
// shown.
func TestDoctorIsRobust(t *testing.T) {
	r := doctorReport(t)
	for _, format := range Doctor.Names() {
		if err := Doctor.Write(&full{100}, format, r); !errors.Is(err, errFull) {
			t.Errorf("%s: the error is %v", format, err)
		}
	}
	var b strings.Builder
	hostile := &doctor.Report{Checks: []doctor.Check{{
		Severity: translate.Blocker, Message: "a\x1b[31mb\nc", Object: translate.ObjectRef{Kind: "Node", Name: "n\x1b"}, Title: "nri", Fix: "x\x1b",
	}}}
	if err := Doctor.Write(&b, "table", hostile); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("an escape sequence:\n%q", b.String())
	}
}

// TestDoctorIsDocumented checks that the page shows lines of the golden file. An ellipsis
// leaves out the rest of a line.
func TestDoctorIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/install/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "doctor.table"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "\n$ kubectl nadra doctor --probe\n")
	if !found {
		t.Fatal("docs/install/requirements.md has no example of doctor")
	}
	example, _, _ = strings.Cut(example, "\n```\n")
	for line := range strings.Lines(example) {
		shown, _, cut := strings.Cut(strings.TrimSuffix(line, "\n"), "…")
		if !cut {
			shown += "\n"
		}
		if !strings.Contains("\n"+string(text), "\n"+shown) {
			t.Errorf("docs/install/requirements.md shows %q, which doctor does not print", shown)
		}
	}
}
