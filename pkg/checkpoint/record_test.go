package checkpoint

import (
	"os"
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
