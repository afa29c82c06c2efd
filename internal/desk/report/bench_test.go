package report

import (
	"bytes"
	"testing"
)

// BenchmarkWrite writes the report of a cluster with ten thousand workloads.
func BenchmarkWrite(b *testing.B) {
	r := Build(large(10_000))
	for _, format := range Scan.Names() {
		b.Run(format, func(b *testing.B) {
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				if err := Scan.Write(&out, format, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(out.Len())/1e6, "MB")
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	in := large(10_000)
	for b.Loop() {
		Build(in)
	}
}
