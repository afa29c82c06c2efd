package checkpoint

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bounded"
)

func FuzzDecodeClaimFile(f *testing.F) {
	golden, err := os.ReadFile("../../testdata/checkpoint/v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, "a-uid")
	f.Add([]byte(`{"version":1,"records":[null]}`), "")
	f.Fuzz(func(t *testing.T, data []byte, uid string) {
		bounded.Run(t, len(data)+len(uid), func() {
			records, err := decodeClaimFile(data, uid)
			if err != nil {
				return
			}
			for _, r := range records {
				if r.NeedsDEL() && r.Sandbox.ID == "" {
					t.Errorf("accepted %s without a sandbox", r.Phase)
				}
			}
		})
	})
}

func FuzzDecodePendingDEL(f *testing.F) {
	f.Add([]byte(`{"version":1,"record":{"claim":{"uid":"a-uid"},"phase":"Attached","sandbox":{"id":"s"}},"since":"2026-11-21T11:00:00Z","cause":"x"}`))
	f.Add([]byte(`{"version":1,"record":{"phase":"Attaching"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded.Run(t, len(data), func() {
			del, err := decodePendingDEL(data)
			if err != nil {
				return
			}
			if del.Record.Sandbox.ID == "" {
				t.Error("accepted without a sandbox")
			}
			if del.fileName(del.conf()) == "" {
				t.Error("it has no name")
			}
		})
	})
}

// TestDecodeGrowth checks that a file of many records is not work with the square of their number.
func TestDecodeGrowth(t *testing.T) {
	bounded.Growth(t, 2000, func(n int) func() {
		var out strings.Builder
		out.WriteString(`{"version":1,"records":[`)
		for i := range n {
			fmt.Fprintf(&out, `{"claim":{"uid":"a"},"request":"r%d","phase":"Prepared"},`, i)
		}
		file := []byte(strings.TrimSuffix(out.String(), ",") + "]}")
		return func() {
			if records, err := decodeClaimFile(file, "a"); err != nil || len(records) != n {
				t.Fatalf("%d records, %v", len(records), err)
			}
		}
	})
}
