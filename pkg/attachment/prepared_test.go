package attachment

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPreparedThroughJSON checks that DEL gets the bytes of ADD after a restart.
func TestPreparedThroughJSON(t *testing.T) {
	n, err := ParseNetwork(nad(`{"type": "a", "html": "<&>", "n": 9007199254740993, "f": 1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAttachment(n, Selection{IPs: []string{"10.0.0.1"}, CNIArgs: object{"k": json.RawMessage(`"<"`)}}, "net1")
	if err != nil {
		t.Fatal(err)
	}
	want := Prepared{
		Claim: ClaimRef{Namespace: "ns", Name: "c", UID: "u1"}, Request: "net1", Pool: "node1", Device: "d", ShareID: "s",
		Pod: PodRef{Namespace: "ns", Name: "p", UID: "u2"}, Index: 1, Attachment: a,
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Prepared
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
