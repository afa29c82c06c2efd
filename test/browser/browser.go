// Package browser drives a real Chromium in tests of pages.
package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Browser is a real browser, spoken to by its debugging protocol through two
// pipes: no port is opened.
type Browser struct {
	t       testing.TB
	in      io.Writer
	from    *os.File
	out     *bufio.Reader
	session string
	last    int
	// Complaints are what the page wrote to the console, its exceptions and
	// what its policy refused.
	Complaints []string
	// Requests are the addresses that the page has requested.
	Requests []string
}

// New starts a browser with one page. Without a browser it skips the test, and fails it
// in CI.
func New(t testing.TB) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	switch {
	case err != nil && os.Getenv("NADRA_LANE") == "ci":
		t.Fatal("CI must have chromium: ", err)
	case err != nil:
		t.Skip("the page is only looked at with chromium: ", err)
	}
	theirIn, in := pipe(t)
	out, theirOut := pipe(t)
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	// A group of its own, so that what it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	c := &Browser{t: t, in: in, from: out, out: bufio.NewReader(out)}
	t.Cleanup(func() { c.end(cmd) })
	c.open()
	return c
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// end waits for the end of the browser, before its folder is removed.
func (c *Browser) end(cmd *exec.Cmd) {
	if c.t.Failed() {
		for _, line := range c.Complaints {
			c.t.Log("the browser says: ", line)
		}
	}
	fmt.Fprint(c.in, `{"id":0,"method":"Browser.close"}`+"\x00")
	timer := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// Object is the parameters of a command.
type Object = map[string]any

func (c *Browser) open() {
	var target struct{ TargetID string }
	c.Call("Target.createTarget", Object{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	c.Call("Target.attachToTarget", Object{"targetId": target.TargetID, "flatten": true}, &session)
	c.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.Call(domain+".enable", nil, nil)
	}
}

// message is an answer, or an event.
type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Call sends a command and waits for its answer. It keeps events meanwhile.
func (c *Browser) Call(method string, params Object, result any) {
	c.t.Helper()
	c.last++
	command := Object{"id": c.last, "method": method, "params": params}
	if params == nil {
		command["params"] = Object{}
	}
	if c.session != "" {
		command["sessionId"] = c.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(text, 0)); err != nil {
		c.t.Fatal(err)
	}
	for {
		m := c.next()
		if m.ID != c.last {
			continue
		}
		if m.Error != nil {
			c.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				c.t.Fatal(err)
			}
		}
		return
	}
}

func (c *Browser) next() message {
	c.t.Helper()
	// Only a browser that hangs takes as long for one message.
	if err := c.from.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		c.t.Fatal(err)
	}
	text, err := c.out.ReadBytes(0)
	if err != nil {
		c.t.Fatal("the browser is gone, or does not answer: ", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		c.t.Fatal(err)
	}
	switch m.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		c.Complaints = append(c.Complaints, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil {
			c.Requests = append(c.Requests, p.Request.URL)
		}
	}
	return m
}

// Visit opens an address and waits until the page is loaded.
func (c *Browser) Visit(address string) {
	c.t.Helper()
	// Otherwise a change of the fragment would not load the page again.
	c.Call("Page.navigate", Object{"url": "about:blank"}, nil)
	c.Call("Page.navigate", Object{"url": address}, nil)
	c.Wait(`document.readyState === "complete" && location.href !== "about:blank"`)
}

// Wait waits until an expression is true.
func (c *Browser) Wait(expression string) {
	c.t.Helper()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if Is[bool](c, expression) {
			return
		}
	}
	c.t.Fatal("never true: ", expression)
}

// Is evaluates an expression in the page.
func Is[T any](c *Browser, expression string) T {
	c.t.Helper()
	var answer struct {
		Result           struct{ Value T }
		ExceptionDetails json.RawMessage
	}
	c.Call("Runtime.evaluate", Object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// Screen is a window as somebody has it.
type Screen struct {
	Name          string
	Width, Height int
	Scheme        string
}

// Use gives the window a size and a colour scheme.
func (c *Browser) Use(s Screen) {
	c.t.Helper()
	c.Call("Emulation.setDeviceMetricsOverride", Object{"width": s.Width, "height": s.Height, "deviceScaleFactor": 1, "mobile": s.Width < 600}, nil)
	c.Call("Emulation.setEmulatedMedia", Object{"features": []Object{{"name": "prefers-color-scheme", "value": s.Scheme}}}, nil)
}

// Picture returns a PNG of the window, or of the whole page.
func (c *Browser) Picture(whole bool) []byte {
	c.t.Helper()
	var shot struct{ Data []byte }
	c.Call("Page.captureScreenshot", Object{"format": "png", "captureBeyondViewport": whole}, &shot)
	return shot.Data
}

// Paper returns the printed page.
func (c *Browser) Paper() []byte {
	c.t.Helper()
	var pdf struct{ Data []byte }
	c.Call("Page.printToPDF", Object{"printBackground": true}, &pdf)
	return pdf.Data
}

// Type types text into the element that a selector finds.
func (c *Browser) Type(selector, text string) {
	c.t.Helper()
	Is[bool](c, fmt.Sprintf("document.querySelector(%q).focus() ?? true", selector))
	c.Call("Input.insertText", Object{"text": text}, nil)
}
