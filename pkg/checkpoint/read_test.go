package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Read returns the records besides files that cannot be read, and moves none of these away.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	if records, dels, err := Read(filepath.Join(dir, "absent")); err != nil || len(records)+len(dels) > 0 {
		t.Fatalf("of nothing: %v, %v, %v", records, dels, err)
	}
	store, _, err := Open(dir, "boot")
	if err == nil {
		err = store.Put([]attachment.Prepared{{Claim: attachment.ClaimRef{UID: "good"}, Request: "r"}})
	}
	if err == nil {
		err = store.MarkAttaching([]Key{{FileUID: "good", Request: "r"}}, attachment.Sandbox{ID: "s"}, nil)
	}
	damaged := filepath.Join(dir, "claims", "bad.json")
	if err == nil {
		err = os.WriteFile(damaged, []byte("{"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := Read(dir)
	if err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("error %v", err)
	}
	if len(records) != 1 || records[0].Sandbox == nil || records[0].Sandbox.ID != "s" {
		t.Errorf("records %+v", records)
	}
	if _, err := os.Stat(damaged); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}
