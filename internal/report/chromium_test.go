package report

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

// chromium is a real browser, spoken to by its debugging protocol through two
// pipes: no port is opened.
type chromium struct {
	t       testing.TB
	in      io.Writer
	from    *os.File
	out     *bufio.Reader
	session string
	last    int
	// complaints are what the page wrote to the console, its exceptions and
	// what its policy refused.
	complaints []string
	requests   []string
}

// newChromium starts a browser with one page. Without a browser it skips the test, and fails it
// in CI.
func newChromium(t testing.TB) *chromium {
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
	c := &chromium{t: t, in: in, from: out, out: bufio.NewReader(out)}
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
func (c *chromium) end(cmd *exec.Cmd) {
	if c.t.Failed() {
		for _, line := range c.complaints {
			c.t.Log("the browser says: ", line)
		}
	}
	fmt.Fprint(c.in, `{"id":0,"method":"Browser.close"}`+"\x00")
	timer := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

type object = map[string]any

func (c *chromium) open() {
	var target struct{ TargetID string }
	c.call("Target.createTarget", object{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	c.call("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &session)
	c.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
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

// call sends a command and waits for its answer. It keeps events meanwhile.
func (c *chromium) call(method string, params object, result any) {
	c.t.Helper()
	c.last++
	command := object{"id": c.last, "method": method, "params": params}
	if params == nil {
		command["params"] = object{}
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

func (c *chromium) next() message {
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
		c.complaints = append(c.complaints, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil {
			c.requests = append(c.requests, p.Request.URL)
		}
	}
	return m
}

// visit opens an address and waits until the page is loaded.
func (c *chromium) visit(address string) {
	c.t.Helper()
	// Otherwise a change of the fragment would not load the page again.
	c.call("Page.navigate", object{"url": "about:blank"}, nil)
	c.call("Page.navigate", object{"url": address}, nil)
	c.wait(`document.readyState === "complete" && location.href !== "about:blank"`)
}

// wait waits until an expression is true.
func (c *chromium) wait(expression string) {
	c.t.Helper()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if is[bool](c, expression) {
			return
		}
	}
	c.t.Fatal("never true: ", expression)
}

// is evaluates an expression in the page.
func is[T any](c *chromium, expression string) T {
	c.t.Helper()
	var answer struct {
		Result           struct{ Value T }
		ExceptionDetails json.RawMessage
	}
	c.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// screen is a window as somebody has it.
type screen struct {
	name          string
	width, height int
	scheme        string
}

func (c *chromium) use(s screen) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", object{"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": s.width < 600}, nil)
	c.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": s.scheme}}}, nil)
}

// picture returns a PNG of the window, or of the whole page.
func (c *chromium) picture(whole bool) []byte {
	c.t.Helper()
	var shot struct{ Data []byte }
	c.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": whole}, &shot)
	return shot.Data
}

// paper returns the printed page.
func (c *chromium) paper() []byte {
	c.t.Helper()
	var pdf struct{ Data []byte }
	c.call("Page.printToPDF", object{"printBackground": true}, &pdf)
	return pdf.Data
}

func (c *chromium) typeInto(selector, text string) {
	c.t.Helper()
	is[bool](c, fmt.Sprintf("document.querySelector(%q).focus() ?? true", selector))
	c.call("Input.insertText", object{"text": text}, nil)
}
