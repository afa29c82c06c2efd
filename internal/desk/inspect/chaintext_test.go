package inspect

import (
	"bytes"
	"strings"
	"testing"
)

// TestLongNames prints a chain whose names leave no room beside them: details then stand below their step, and are not
// wrapped after each word.
func TestLongNames(t *testing.T) {
	network := "shop-of-a-large-customer/" + strings.Repeat("macvlan-", 9) + "conf"
	const detail = "exists, and can be read; this pod already has the network, a new one would not get it, because the node that it would run on has no master interface"
	c := Chain{Steps: []Step{{Name: "definition", Network: network, Interface: "net1", State: StepOK, Detail: detail}, {Name: "scheduling", State: StepNotReached}}}
	var out bytes.Buffer
	if err := c.Text(&out); err != nil {
		t.Fatal(err)
	}
	steps := strings.Split(strings.TrimSpace(out.String()), "\n")[2:]
	if len(steps) != 4 || !strings.Contains(steps[0], network) || strings.Contains(steps[0], "exists") || !strings.Contains(steps[3], "scheduling") {
		t.Fatalf("printed\n%s", out.String())
	}
	if got := strings.Join(strings.Fields(steps[1]+" "+steps[2]), " "); got != detail {
		t.Errorf("the detail is %q", got)
	}
}
