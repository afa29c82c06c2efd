package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bench/sealed"
	"github.com/nadra-dev/nadra/test/lab"
)

// hookFigures has a line of pkg/driver's benchmark: the case, and the figures by their
// units.
type hookFigures struct {
	Case    string
	Figures map[string]float64
}

// BenchmarkHook runs the benchmark of the driver's hooks in pkg/driver and takes over its
// figures.
func BenchmarkHook(b *testing.B) {
	figures.begin(b, "hook")
	noLab(b)
	b.ReportMetric(0, "ns/op")
	cmd := exec.CommandContext(b.Context(), "go", "test", "-tags", "e2e", "-count=1", "-run", "^$", "-bench", "^BenchmarkHook$", "./pkg/driver")
	cmd.Dir, cmd.Stderr = lab.Root(), os.Stderr
	must(b, sealed.Seal(cmd))
	out, err := cmd.Output()
	fmt.Printf("\n%s", out)
	must(b, err)
	figures.Hook = parseHook(b, out, "BenchmarkHook/")
	b.ReportMetric(float64(len(figures.Hook)), "cases")
}

// parseHook reads the lines of a benchmark of that name: the case's, iterations, and pairs of a
// figure and its unit.
func parseHook(b *testing.B, out []byte, benchmark string) []hookFigures {
	var all []hookFigures
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, ok := strings.CutPrefix(lines.Text(), benchmark)
		if !ok {
			continue
		}
		fields := strings.Fields(name)
		h := hookFigures{Case: fields[0][:strings.LastIndexByte(fields[0], '-')], Figures: map[string]float64{}}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			must(b, err)
			h.Figures[fields[i+1]] = value
		}
		all = append(all, h)
	}
	if len(all) == 0 {
		b.Fatal("the driver's benchmark printed no figures")
	}
	return all
}
