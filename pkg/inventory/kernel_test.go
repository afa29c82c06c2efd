package inventory

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// The kernel of this machine answers, and names the loopback at least.
func TestHostLinks(t *testing.T) {
	links, err := HostKernel().Links()
	if err != nil {
		t.Fatal(err)
	}
	if lo, ok := links["lo"]; !ok || lo.DefaultRoute {
		t.Errorf("links %v", links)
	}
}

func TestDefaultRoutes(t *testing.T) {
	parse := func(s string) *net.IPNet {
		_, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	got := defaultRoutes([]netlink.Route{
		{LinkIndex: 2},
		{LinkIndex: 3, Dst: parse("0.0.0.0/0")},
		{LinkIndex: 4, Dst: parse("10.0.0.0/8")},
		{LinkIndex: 5, Dst: parse("0.0.0.0/1")},
		{MultiPath: []*netlink.NexthopInfo{{LinkIndex: 6}, {LinkIndex: 7}}},
	})
	if want := []int{2, 3, 0, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("indexes %v, want %v", got, want)
	}
}

func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		answers []error
		want    error
		asked   int
	}{
		{[]error{nil}, nil, 1},
		{[]error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, nil, 3},
		{[]error{broken}, broken, 1},
		{slices.Repeat([]error{netlink.ErrDumpInterrupted}, 19), netlink.ErrDumpInterrupted, 10},
	} {
		asked := 0
		_, err := Whole(func() ([]int, error) { asked++; return nil, tt.answers[asked-1] })
		if !errors.Is(err, tt.want) || asked != tt.asked {
			t.Errorf("answers %v: asked %d times, error %v", tt.answers, asked, err)
		}
	}
}
