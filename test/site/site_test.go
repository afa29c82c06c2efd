// Package site tests the site that `make docs` builds of docs/.
package site

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/nadra-dev/nadra/test/browser"
)

var settings = filepath.Join("..", "..", "build", "site")

// built builds the site into a folder of the test. Without mkdocs it skips the test, and fails it in CI.
func built(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("mkdocs")
	switch {
	case err != nil && os.Getenv("NADRA_LANE") == "ci":
		t.Fatal("CI must have mkdocs: ", err)
	case err != nil:
		t.Skip("the site is only built with mkdocs, which make docs installs: ", err)
	}
	readSources(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), program, "build", "--quiet", "--strict", "--config-file", "mkdocs.yml", "--site-dir", dir)
	build.Dir = settings
	build.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the site: %v\n%s", err, out)
	}
	return dir
}

// readSources reads what mkdocs reads. Otherwise go test would not notice a changed page, and repeat an earlier result.
func readSources(t *testing.T) {
	t.Helper()
	for _, dir := range []string{settings, filepath.Join("..", "..", "docs")} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				_, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// document is a page of the site: what it links to, and its anchors.
type document struct {
	targets []string
	anchors map[string]bool
}

// documents reads all pages.
func documents(t *testing.T, site string) map[string]document {
	t.Helper()
	out := map[string]document{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" || name == "404.html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(site, filepath.FromSlash(name)))
		if err == nil {
			out[name], err = read(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// read returns the links and anchors of a page.
func read(text []byte) (document, error) {
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return document{}, err
	}
	d := document{anchors: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id" || a.Key == "name":
				d.anchors[a.Val] = true
			case n.Data == "a" && a.Key == "href", n.Data == "img" && a.Key == "src", n.Data == "script" && a.Key == "src", n.Data == "link" && a.Key == "href":
				d.targets = append(d.targets, a.Val)
			}
		}
	}
	return d, nil
}

// TestLinks checks that each link of the site leads to a page, a file or a heading of it, or to another
// site, and that no page needs a script or a style of another site.
func TestLinks(t *testing.T) {
	site := built(t)
	all := documents(t, site)
	links := 0
	for name, d := range all {
		for _, target := range d.targets {
			u, err := url.Parse(target)
			if err != nil {
				t.Errorf("%s: link %q: %v", name, target, err)
				continue
			}
			if u.IsAbs() || u.Host != "" {
				continue
			}
			links++
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if strings.HasSuffix(u.Path, "/") || to == "." {
				to = path.Join(to, "index.html")
			}
			if _, err := os.Stat(filepath.Join(site, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: link %q leads to no file", name, target)
			}
			if page, is := all[to]; is && u.Fragment != "" && !page.anchors[u.Fragment] {
				t.Errorf("%s: link %q leads to no heading", name, target)
			}
		}
	}
	if len(all) < 50 || links < 1000 {
		t.Errorf("found only %d links on %d pages", links, len(all))
	}
}

// TestLook looks at pages of the site on a desktop and on a phone, and searches for an error's reason.
// The pages request nothing of another site.
func TestLook(t *testing.T) {
	site := built(t)
	server := httptest.NewServer(http.FileServerFS(os.DirFS(site)))
	defer server.Close()
	c := browser.New(t)
	for _, s := range []browser.Screen{
		{Name: "desktop", Width: 1280, Height: 900, Scheme: "light"},
		{Name: "phone", Width: 390, Height: 844, Scheme: "dark"},
	} {
		c.Use(s)
		for _, page := range []string{"index.html", "concepts/how-it-works.html", "reference/flags.html", "troubleshooting/alerts.html"} {
			c.Visit(server.URL + "/" + page)
			if got := browser.Is[float64](c, "document.documentElement.scrollWidth"); got > float64(s.Width) {
				t.Errorf("%s: %s is %v wide", s.Name, page, got)
			}
			if got := browser.Is[bool](c, `Array.from(document.images).every((i) => i.naturalWidth > 0)`); !got {
				t.Errorf("%s: %s lacks a picture", s.Name, page)
			}
			keep(t, s.Name+"-"+strings.ReplaceAll(strings.TrimSuffix(page, ".html"), "/", "-")+".png", c.Picture(false))
		}
	}
	c.Use(browser.Screen{Name: "desktop", Width: 1280, Height: 900, Scheme: "light"})
	c.Visit(server.URL + "/index.html")
	c.Wait(`document.querySelector(".md-search-result__meta").textContent.trim() === "Type to start searching"`) // the index is read
	c.Type(".md-search__input", "PluginUnhealthy")
	const hits = `.md-search-result__link`
	c.Wait(`document.querySelectorAll("` + hits + `").length > 0`)
	keep(t, "search.png", c.Picture(false))
	if !browser.Is[bool](c, `Array.from(document.querySelectorAll("`+hits+`")).some((a) => a.href.includes("/reference/reasons.html"))`) {
		t.Error("the search for a reason does not find docs/reference/reasons.md")
	}
	for _, address := range c.Requests {
		if !strings.HasPrefix(address, server.URL) && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "about:") && !strings.HasPrefix(address, "blob:") {
			t.Errorf("a page requests %s", address)
		}
	}
}

// keep writes a picture to the folder that SITE_PICTURES names, if it is set.
func keep(t *testing.T, name string, picture []byte) {
	t.Helper()
	dir := os.Getenv("SITE_PICTURES")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
