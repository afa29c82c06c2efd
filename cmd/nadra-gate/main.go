// Command nadra-gate is an OCI createRuntime hook: it holds a container back
// until its pod has all of its networks, and refuses it when they do not come.
// The driver brings it into containers by a CDI device that every claim has;
// it works with the driver and NRI dead or alive.
//
// Its standard error becomes the text of the pod's event.
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
)

// A waiting gate reads its records again, a file or two that are in the page
// cache, in pauses that grow with its wait: most pods are attached when their
// containers come, or some milliseconds later. Those that wait for seconds are
// many at a time, and look less often, so that they leave the CPU to the plugins
// that they wait for.
const (
	firstPause = time.Millisecond
	maxPause   = 25 * time.Millisecond
	longPause  = 250 * time.Millisecond
	// share of the time waited is what a pause may be.
	share = 20
)

// bootIDFile is read in the runtime's mount namespace, which is the host's.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// The keys under which runtimes tell about the sandbox: containerd's, CRI-O's.
var (
	sandboxAnnotations   = []string{"io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"}
	namespaceAnnotations = []string{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"}
	nameAnnotations      = []string{"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"}
)

func main() {
	runtime.LockOSThread() // namespaces belong to threads
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "nadra:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader) error {
	flags := flag.NewFlagSet("nadra-gate", flag.ContinueOnError)
	dir := flags.String("records", "", "directory of the driver's records")
	claims := flags.String("claims", "", "comma-separated UIDs of the pod's claims")
	wait := flags.Duration("wait", time.Minute, "how long the pod's containers together wait for the networks; below the kubelet's 2 minutes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// A kubelet that gives up kills runc and not its hooks.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking to end with the runtime: %w", err)
	}
	container, err := readState(stdin)
	if err != nil {
		return err
	}
	here, err := container.whereabouts()
	if err != nil {
		return err
	}
	patience := func() time.Duration { return gate.Patience(sandboxAge(container.Bundle), *wait) }
	return hold(strings.Split(*claims, ","), *dir, here, patience)
}

// hold returns nil when the container may start. It asks for its patience when
// it has to wait, which it rarely has.
func hold(claims []string, dir string, here gate.Where, patience func() time.Duration) error {
	var limit time.Duration
	var deadline time.Time
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, max(maxPause, min(time.Since(begun)/share, longPause))) {
		verdict, reason, err := decide(claims, dir, here)
		switch {
		case err != nil:
			return err
		case verdict == gate.Go:
			return nil
		case verdict == gate.Refuse:
			return errors.New(reason)
		case deadline.IsZero():
			limit = patience()
			deadline = time.Now().Add(limit)
		case time.Now().After(deadline):
			return fmt.Errorf("after %s: %s", limit.Round(100*time.Millisecond), reason)
		}
		time.Sleep(pause)
	}
}

// decide asks for every claim of the pod. The first that refuses counts,
// otherwise the first that has to be waited for.
func decide(claims []string, dir string, here gate.Where) (verdict gate.Verdict, reason string, err error) {
	for _, uid := range claims {
		data, err := os.ReadFile(filepath.Join(dir, uid+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gate.Refuse, "", fmt.Errorf("reading the records of claim %s: %w", uid, err)
		}
		switch v, why := gate.Decide(data, here); {
		case v == gate.Refuse:
			return v, why, nil
		case verdict == gate.Go:
			verdict, reason = v, why
		}
	}
	return verdict, reason, nil
}

// state is what the runtime tells a hook on its standard input (OCI runtime
// specification, § "State").
type state struct {
	PID         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
}

func readState(stdin io.Reader) (state, error) {
	var s state
	if err := json.NewDecoder(stdin).Decode(&s); err != nil {
		return state{}, fmt.Errorf("reading the hook's state from standard input: %w", err)
	}
	return s, nil
}

// annotation returns the first of the keys that there is; empty if none.
func (s state) annotation(keys []string) string {
	for _, key := range keys {
		if v := s.Annotations[key]; v != "" {
			return v
		}
	}
	return ""
}

// whereabouts is where the container is to start.
func (s state) whereabouts() (gate.Where, error) {
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

// cookie returns that of the network namespace at path. The thread that
// enters it is the process' only business.
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
		return 0, fmt.Errorf("reading the network namespace's cookie (Linux 5.14 or later): %w", err)
	}
	return c, nil
}
