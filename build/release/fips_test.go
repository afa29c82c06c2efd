package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// more reports whether everything is built with Go's validated FIPS 140-3 module, for which Go compiles all packages
// again, also those of Kubernetes.
var more = os.Getenv("MORE") != ""

// TestFIPS140 builds with Go's validated FIPS 140-3 module, whatever the caller's environment
// says, and runs the programs while they accept no other cryptography. Without more it builds the smallest program only.
func TestFIPS140(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFIPS140", "latest")
	r := small(root, "")
	r.fips, r.work = "v1.0.0", t.TempDir()
	p := platform{"linux", runtime.GOARCH}
	programs := []string{"nadra-gate"}
	if more {
		programs = append(programs, "nadra-node", "nadra-controller", "kubectl-nadra")
	}
	if err := r.compile(p, programs...); err != nil {
		t.Fatal(err)
	}
	if command := r.command(); !strings.HasSuffix(command, " FIPS140=v1.0.0") {
		t.Errorf("the provenance's command is %q", command)
	}
	t.Setenv("GODEBUG", "fips140=only")
	for _, name := range programs {
		path := filepath.Join(r.work, p.String(), name)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if !strings.HasPrefix(settings["GOFIPS140"], "v1.0.0-") || !strings.Contains(settings["DefaultGODEBUG"], "fips140=on") {
			t.Errorf("%s is built with %v", name, settings)
		}
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkRuns(t, p.arch, name, program)
	}
}

// TestFIPS140Only runs, while the module accepts no other algorithm, the unit tests of the packages that use more of
// cryptography than SHA-256 and random numbers, which are approved: those that speak TLS or handle certificates, and
// the one that opens a stream to a pod, whose library has SHA-1. Without more they have the module of the Go release.
func TestFIPS140Only(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"-C", "../.."}, args...)...)
		if more {
			cmd.Env = append(os.Environ(), "GOFIPS140=v1.0.0")
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v:\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	other := regexp.MustCompile(`crypto/(tls|x509|ecdsa|fips140)\b`)
	var packages []string
	for line := range strings.Lines(run("list", "-f", "{{.ImportPath}} {{.Imports}}", "./cmd/...", "./pkg/...", "./internal/...")) {
		if other.MatchString(line) {
			packages = append(packages, strings.Fields(line)[0])
		}
	}
	for _, name := range []string{"controller", "desk/canary"} {
		if !slices.Contains(packages, "github.com/nadra-dev/nadra/internal/"+name) {
			t.Fatalf("the packages with cryptography are %q, without %s", packages, name)
		}
	}
	t.Log(run(append([]string{"test", "-count=1", "-vet=off", "-exec=env GODEBUG=fips140=only"}, packages...)...))
}
