package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/test/browser"
)

var screens = []browser.Screen{
	{Name: "desktop-light", Width: 1280, Height: 900, Scheme: "light"},
	{Name: "desktop-dark", Width: 1280, Height: 900, Scheme: "dark"},
	{Name: "phone-light", Width: 390, Height: 844, Scheme: "light"},
	{Name: "phone-dark", Width: 390, Height: 844, Scheme: "dark"},
}

// shown counts the rows that somebody sees.
const shown = `Array.from(document.querySelectorAll("#table tbody tr")).filter((r) => r.getClientRects().length > 0).length`

// pageFile writes a report to a file for the browser.
func pageFile(t testing.TB, r *Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(written(t, "html", r)), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// TestPageInBrowser uses the page in a browser. If NADRA_SCREENSHOTS names a folder, it leaves
// pictures there.
func TestPageInBrowser(t *testing.T) {
	c := browser.New(t)
	r := Build(large(60))
	address := pageFile(t, r)
	checkComplete(t, c, address, r)
	checkFilters(t, c, address, r)
	checkSorting(t, c, address, r)
	checkScreens(t, c, address)
	checkPlain(t, c, address, r)
	checkNasty(t, c)
	checkSilence(t, c)
}

func checkComplete(t *testing.T, c *browser.Browser, address string, r *Report) {
	c.Visit(address)
	type counts struct{ Rows, Shown, Namespaces, Bars, Networks, Findings, Ready float64 }
	got := browser.Is[counts](c, `({
		rows: document.querySelectorAll("#table tbody tr").length, shown: `+shown+`,
		namespaces: document.querySelectorAll(".bars tbody tr").length,
		bars: Array.from(document.querySelectorAll(".bars tbody rect")).filter((b) => b.getBoundingClientRect().width > 1).length,
		networks: document.querySelectorAll(".nets tbody tr").length, findings: document.querySelectorAll(".places li").length,
		ready: Number(document.querySelector(".card.ready b").textContent),
	})`)
	want := counts{
		float64(len(r.Workloads)), float64(len(r.Workloads)), float64(len(r.Namespaces)), 0, float64(len(r.Networks)), float64(len(r.Findings)),
		float64(r.Summary.Workloads.Ready),
	}
	for _, n := range r.Namespaces {
		want.Bars += float64(len(segments(n.Workloads, 1)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page has others (+) than the report (-):\n%s", diff)
	}
	shares := browser.Is[bool](c, `Array.from(document.querySelectorAll(".bars tbody tr")).every((row) => {
		const [all, ...parts] = Array.from(row.querySelectorAll(".num"), (n) => Number(n.textContent));
		const whole = row.querySelector("svg").getBoundingClientRect().width;
		const bars = Array.from(row.querySelectorAll("rect"), (b) => b.width.baseVal.value / whole * all);
		return parts.filter((n) => n > 0).every((n, i) => Math.abs(n - bars[i]) < 0.05);
	})`)
	if !shares {
		t.Error("the bars are not as long as the numbers say")
	}
}

// matching counts the workloads that a filter must show.
func matching(r *Report, fits func(Workload) bool) float64 {
	n := 0
	for _, w := range r.Workloads {
		if fits(w) {
			n++
		}
	}
	return float64(n)
}

func checkFilters(t *testing.T, c *browser.Browser, address string, r *Report) {
	stays := matching(r, func(w Workload) bool { return verdictKey(w.Readiness) == "stays" })
	upf := matching(r, func(w Workload) bool { return strings.Contains(w.Object.Name, "upf") })
	both := matching(r, func(w Workload) bool {
		return w.Object.Namespace == r.Namespaces[0].Name && verdictKey(w.Readiness) == "ready"
	})
	for fragment, want := range map[string]float64{
		"#verdict=stays": stays, "#q=UPF": upf, "#q=NADRA-999": 0, "#verdict=ready&namespace=" + r.Namespaces[0].Name: both, "#workloads": float64(len(r.Workloads)),
	} {
		c.Visit(address + fragment)
		if got := browser.Is[float64](c, shown); got != want {
			t.Errorf("%s shows %v workloads, want %v", fragment, got, want)
		}
	}
	c.Visit(address)
	c.Type("#q", "upf")
	if got := browser.Is[float64](c, shown); got != upf || got == 0 || got == float64(len(r.Workloads)) {
		t.Errorf("typing upf shows %v workloads, want %v", got, upf)
	}
	if got := browser.Is[string](c, "location.hash"); got != "#q=upf" {
		t.Errorf("the address has %s", got)
	}
	if got, want := browser.Is[string](c, `document.getElementById("shown").textContent`), fmt.Sprintf("%v of %d workloads", upf, len(r.Workloads)); got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	browser.Is[bool](c, `document.querySelector("#filters button").click() ?? true`)
	c.Wait(shown + fmt.Sprintf(" === %d && location.hash === ''", len(r.Workloads)))
	browser.Is[bool](c, `document.querySelector(".card.stays a").click() ?? true`)
	c.Wait(shown + fmt.Sprintf(" === %v", stays))
	browser.Is[bool](c, `document.querySelector(".bars tbody a").click() ?? true`)
	c.Wait(`document.getElementById("namespace").value === ` + fmt.Sprintf("%q", r.Namespaces[0].Name))
}

func checkSorting(t *testing.T, c *browser.Browser, address string, r *Report) {
	c.Visit(address)
	first := `document.querySelector("#table tbody tr").dataset.v`
	press := `document.querySelectorAll("#table thead button")[3].click() ?? document.querySelectorAll("#table thead th")[3].getAttribute("aria-sort")`
	if order, v := browser.Is[string](c, press), browser.Is[string](c, first); order != "ascending" || v != "ready" {
		t.Errorf("sorted %s by verdict, the first is %s", order, v)
	}
	if order, v := browser.Is[string](c, press), browser.Is[string](c, first); order != "descending" || v != "stays" {
		t.Errorf("sorted %s by verdict, the first is %s", order, v)
	}
	if got := browser.Is[float64](c, shown); got != float64(len(r.Workloads)) {
		t.Errorf("sorting leaves %v rows", got)
	}
}

func checkScreens(t *testing.T, c *browser.Browser, address string) {
	grounds := map[string]bool{}
	for _, s := range screens {
		c.Use(s)
		c.Visit(address)
		if got := browser.Is[float64](c, "document.documentElement.scrollWidth"); got > float64(s.Width) {
			t.Errorf("%s: the page is %v wide", s.Name, got)
		}
		grounds[browser.Is[string](c, "getComputedStyle(document.body).backgroundColor")] = true
		keepParts(t, c, s.Name)
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark have the grounds %v", grounds)
	}
	c.Use(screens[0])
	c.Visit(address)
	keep(t, "whole.png", c.Picture(true))
	checkPaper(t, c)
}

// checkPaper checks that the printed page shows everything except controls. 718 points are a
// page of A4 without its margins.
func checkPaper(t *testing.T, c *browser.Browser) {
	c.Use(browser.Screen{Name: "paper", Width: 718, Height: 1000, Scheme: "light"})
	c.Call("Emulation.setEmulatedMedia", browser.Object{"media": "print"}, nil)
	defer c.Call("Emulation.setEmulatedMedia", browser.Object{"media": ""}, nil)
	if browser.Is[bool](c, `Array.from(document.querySelectorAll(".places li, details .it")).some((e) => !e.checkVisibility())`) {
		t.Error("what is folded up is not printed")
	}
	if browser.Is[bool](c, `document.getElementById("filters").checkVisibility()`) {
		t.Error("the filters are printed")
	}
	if got := browser.Is[float64](c, "document.documentElement.scrollWidth"); got > 718 {
		t.Errorf("the paper is %v wide", got)
	}
	keepParts(t, c, "paper")
	keep(t, "paper.pdf", c.Paper())
}

// checkPlain checks the page without scripts.
func checkPlain(t *testing.T, c *browser.Browser, address string, r *Report) {
	c.Call("Emulation.setScriptExecutionDisabled", browser.Object{"value": true}, nil)
	defer c.Call("Emulation.setScriptExecutionDisabled", browser.Object{"value": false}, nil)
	c.Visit(address)
	if got := browser.Is[float64](c, shown); got != float64(len(r.Workloads)) {
		t.Errorf("without a script %v workloads are shown", got)
	}
	if browser.Is[bool](c, `document.getElementById("filters").getClientRects().length > 0`) {
		t.Error("without a script there are filters that do nothing")
	}
}

// checkNasty checks that values with markup are shown as text.
func checkNasty(t *testing.T, c *browser.Browser) {
	c.Use(screens[2])
	c.Call("Page.addScriptToEvaluateOnNewDocument", browser.Object{"source": "window.alert = () => console.error('alert')"}, nil)
	for _, v := range nasty {
		c.Visit(pageFile(t, hostile(v)))
		if got := browser.Is[float64](c, "document.documentElement.scrollWidth"); got > float64(screens[2].Width) {
			t.Errorf("%.40q makes the page %v wide", v, got)
		}
	}
}

// checkSilence checks that the page logs nothing and requests nothing but itself.
func checkSilence(t *testing.T, c *browser.Browser) {
	for _, complaint := range c.Complaints {
		t.Errorf("the console has %.500s", complaint)
	}
	for _, request := range c.Requests {
		if !strings.HasPrefix(request, "file://") && request != "about:blank" && request != "data:," {
			t.Errorf("the page asks for %s", request)
		}
	}
}

// keepParts takes a picture of each part of the page.
func keepParts(t *testing.T, c *browser.Browser, name string) {
	t.Helper()
	if os.Getenv("NADRA_SCREENSHOTS") == "" {
		return
	}
	for part, at := range map[string]string{
		"top": "header", "namespaces": "#namespaces", "workloads": "#workloads", "findings": "#findings", "networks": "#networks",
	} {
		browser.Is[bool](c, fmt.Sprintf("document.documentElement.style.scrollBehavior = 'auto'; document.querySelector(%q)?.scrollIntoView(), true", at))
		keep(t, name+"-"+part+".png", c.Picture(false))
	}
}

func keep(t *testing.T, name string, data []byte) {
	t.Helper()
	folder := os.Getenv("NADRA_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
