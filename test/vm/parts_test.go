package vm

import (
	"strings"
	"testing"
)

func TestArchive(t *testing.T) {
	var a archive
	a.file("/lib/modules/order", []byte("ext4\n"))
	a.file("lib/modules/more", []byte("x"))
	a.device("dev/console", 5, 1)
	content := string(a.bytes())
	if len(content)%4 != 0 {
		t.Errorf("it has %d bytes: entries begin at multiples of four", len(content))
	}
	var names []string
	for rest := content; rest != ""; {
		entry := rest
		if !strings.HasPrefix(entry, "070701") {
			t.Fatalf("no entry begins with %.6q", entry)
		}
		field := func(i int) (value int) {
			for _, digit := range entry[6+8*i : 14+8*i] {
				value = value<<4 | strings.IndexRune("0123456789ABCDEF", digit)
			}
			return value
		}
		size, nameSize := field(6), field(11)
		const header = 110
		names = append(names, entry[header:header+nameSize-1])
		aligned := func(n int) int { return (n + 3) &^ 3 }
		rest = entry[aligned(aligned(header+nameSize)+size):]
	}
	want := "lib lib/modules lib/modules/order lib/modules/more dev dev/console TRAILER!!!"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("entries %q, not %q", got, want)
	}
}

func TestDebianSite(t *testing.T) {
	const known = "https://packages.example.org/apt cloud\nhttp://mirror.example.org/debian-security bookworm-security\n" +
		"http://mirror.example.org/debian bookworm-updates\nhttp://mirror.example.org/debian bookworm\n"
	site, err := debianSite(known)
	if err != nil || site != "http://mirror.example.org/debian" {
		t.Errorf("site %q, %v", site, err)
	}
	if _, err := debianSite("https://deb.example.org/ubuntu jammy\n"); err == nil {
		t.Error("a machine that is not Debian 12 has a site")
	}
}
