package attachment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestDeviceName(t *testing.T) {
	for r, want := range map[NetworkRef]string{
		ref("default", "blue"):               "default-blue-562ef55a60",
		ref("default", "blue.v2"):            "",
		ref("a", "b-c"):                      "",
		ref("a-b", "c"):                      "",
		ref("default", "x"+longName(250)):    "",
		ref(longName(63), longName(253)):     "",
		ref("default", longName(44)+"-"+"x"): "",
	} {
		got := DeviceName(r)
		if errs := validation.IsDNS1123Label(got); len(errs) > 0 {
			t.Errorf("DeviceName(%s) = %q: %v", r, got, errs)
		}
		if want != "" && got != want {
			t.Errorf("DeviceName(%s) = %q, want %q", r, got, want)
		}
	}
	if DeviceName(ref("a", "b-c")) == DeviceName(ref("a-b", "c")) {
		t.Error("two networks share a name")
	}
}

func TestDeviceClassName(t *testing.T) {
	if got, want := DeviceClassName(ref("default", "blue")), "blue.default.nad.nadra.dev"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, r := range []NetworkRef{ref(longName(63), longName(253)), ref("a", longName(251)+".x"), ref("a", strings.Repeat("a.", 126)+"a")} {
		if errs := validation.IsDNS1123Subdomain(DeviceClassName(r)); len(errs) > 0 {
			t.Errorf("DeviceClassName(%s) = %q: %v", r, DeviceClassName(r), errs)
		}
	}
}

func longName(n int) string { return strings.Repeat("a", n) }

// TestClassNetwork checks that the name of a class has its network, unless it was shortened.
func TestClassNetwork(t *testing.T) {
	for _, ref := range []NetworkRef{{"shop", "lan"}, {"shop", "a.b.c"}, {"nad", "nad"}} {
		if got, ours := ClassNetwork(DeviceClassName(ref)); !ours || got != ref {
			t.Errorf("%v: got %v, %v", ref, got, ours)
		}
	}
	long := NetworkRef{"shop", strings.Repeat("n", 253)}
	if got, ours := ClassNetwork(DeviceClassName(long)); !ours || got.Namespace != "shop" {
		t.Errorf("got %v, %v", got, ours)
	}
	for _, class := range []string{"", "net.nadra.dev", "lan.nad.nadra.dev", ".shop.nad.nadra.dev", "lan..nad.nadra.dev", "lan.shop.nad.nadra.dev.x"} {
		if got, ours := ClassNetwork(class); ours {
			t.Errorf("%s: got %v", class, got)
		}
	}
}
