// Command nadra-gate is an OCI createRuntime hook. It holds a container until its pod has
// all of its networks, and refuses the container if they do not come. The driver adds the
// hook to containers by a CDI device that every claim has. It works whether the driver and
// NRI run or not.
//
// The kubelet's event on the pod shows its standard error, which has a reason code.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/gate"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// A waiting gate reads the records, one or two files in the page cache, again and again.
// Its pauses grow with its wait: most pods are attached before their containers start, or
// some milliseconds later. If gates wait for seconds, there are many of them, and they read
// less often to leave the CPU to the plugins that they wait for.
const (
	firstPause = time.Millisecond
	maxPause   = 25 * time.Millisecond
	longPause  = 250 * time.Millisecond
	// share limits a pause to 1/share of the time waited.
	share = 20
)

// bootIDFile is a path in the runtime's mount namespace, which is the host's.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// The annotations in which containerd and CRI-O describe the sandbox.
var (
	sandboxAnnotations   = []string{"io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"}
	namespaceAnnotations = []string{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"}
	nameAnnotations      = []string{"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"}
)

func main() {
	runtime.LockOSThread() // namespaces belong to threads
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "nadra:", reason.Wrap(reason.GateBadInput, err))
		os.Exit(1)
	}
}

// run parses the flags and the hook's input, and returns nil if the container may start.
func run(args []string, stdin io.Reader) error {
	flags := flag.NewFlagSet("nadra-gate", flag.ContinueOnError)
	dir := flags.String("records", "", "directory of the driver's records")
	claims := flags.String("claims", "", "comma-separated UIDs of the pod's claims")
	wait := flags.Duration("wait", time.Minute, "how long the pod's containers together wait for the networks; below the kubelet's 2 minutes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// When the kubelet gives up, it kills runc, but not its hooks.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking to end with the runtime: %w", err)
	}
	container, err := readState(stdin)
	if err != nil {
		return err
	}
	here, err := container.place()
	if err != nil {
		return err
	}
	limit := func() time.Duration { return gate.WaitLimit(sandboxAge(container.Bundle), *wait) }
	return hold(strings.Split(*claims, ","), *dir, here, limit)
}

// hold waits until the container may start. It calls waitLimit only if it has to wait,
// which is rare.
func hold(claims []string, dir string, here gate.Where, waitLimit func() time.Duration) error {
	var limit time.Duration
	var deadline time.Time
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, max(maxPause, min(time.Since(begun)/share, longPause))) {
		verdict, cause := decide(claims, dir, here)
		switch {
		case verdict == gate.Go:
			return nil
		case verdict == gate.Refuse:
			return cause
		case deadline.IsZero():
			limit = waitLimit()
			deadline = time.Now().Add(limit)
		case time.Now().After(deadline):
			return fmt.Errorf("after %s: %w", limit.Round(100*time.Millisecond), cause)
		}
		time.Sleep(pause)
	}
}

// decide judges every claim of the pod. The first refusal counts, otherwise the first
// claim for which the container has to wait.
func decide(claims []string, dir string, here gate.Where) (verdict gate.Verdict, cause error) {
	for _, uid := range claims {
		data, err := os.ReadFile(filepath.Join(dir, uid+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gate.Refuse, reason.Errorf(reason.GateRecordUnreadable, "reading the records of claim %s: %w", uid, err)
		}
		switch v, why := gate.Decide(data, here); {
		case v == gate.Refuse:
			return v, why
		case verdict == gate.Go:
			verdict, cause = v, why
		}
	}
	return verdict, cause
}

// state is the hook's standard input (OCI runtime specification, section "State").
type state struct {
	PID         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
}

// readState decodes the hook's standard input.
func readState(stdin io.Reader) (state, error) {
	var s state
	if err := json.NewDecoder(stdin).Decode(&s); err != nil {
		return state{}, fmt.Errorf("reading the hook's state from standard input: %w", err)
	}
	return s, nil
}

// annotation returns the value of the first key that is set, or "".
func (s state) annotation(keys []string) string {
	for _, key := range keys {
		if v := s.Annotations[key]; v != "" {
			return v
		}
	}
	return ""
}

// place returns where the container is about to start.
func (s state) place() (gate.Where, error) {
	bootID, err := os.ReadFile(bootIDFile)
	if err != nil {
		return gate.Where{}, fmt.Errorf("reading the boot ID: %w", err)
	}
	here := gate.Where{BootID: strings.TrimSpace(string(bootID)), SandboxID: s.annotation(sandboxAnnotations)}
	if name := s.annotation(nameAnnotations); name != "" {
		here.Pod = s.annotation(namespaceAnnotations) + "/" + name
	}
	here.Cookie, err = cookie(fmt.Sprintf("/proc/%d/ns/net", s.PID))
	return here, err
}

// cookie returns the cookie of the network namespace at path. It leaves the thread in that
// namespace, because the process does nothing else.
func cookie(path string) (uint64, error) {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening the container's network namespace %s: %w", path, err)
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("entering the container's network namespace: %w", err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	c, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, reason.Errorf(reason.KernelTooOld, "reading the network namespace's cookie (Linux 5.14 or later): %w", err)
	}
	return c, nil
}
