package attachment

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// checkRefused checks that an error has a code, once, and contains the parts of want, which "…"
// separates, in their order.
func checkRefused(t *testing.T, err error, code reason.Code, want string) {
	t.Helper()
	if err == nil || reason.Of(err) != code || code != "" && strings.Count(err.Error(), code.Text("")) != 1 {
		t.Errorf("got error %v with code %q, want %q", err, reason.Of(err), code)
		return
	}
	rest := err.Error()
	for part := range strings.SplitSeq(want, "…") {
		_, after, found := strings.Cut(rest, strings.TrimSpace(part))
		if !found {
			t.Errorf("got error %v\nit lacks   %s", err, part)
			return
		}
		rest = after
	}
}
