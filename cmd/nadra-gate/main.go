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

// look is the interval at which a waiting gate reads its records again: a file
// or two that are in the page cache.
const look = 25 * time.Millisecond

// bootIDFile is read in the runtime's mount namespace, which is the host's.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// sandboxAnnotations are the keys under which runtimes tell the sandbox's ID.
var sandboxAnnotations = []string{
	"io.kubernetes.cri.sandbox-id",  // containerd
	"io.kubernetes.cri-o.SandboxID", // CRI-O
}

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
	limit := flags.Duration("wait", time.Minute, "how long to wait for the networks; below the kubelet's 2 minutes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// A kubelet that gives up kills runc and not its hooks.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking to end with the runtime: %w", err)
	}
	here, err := whereabouts(stdin)
	if err != nil {
		return err
	}
	return hold(strings.Split(*claims, ","), *dir, here, *limit)
}

// hold returns nil when the container may start.
func hold(claims []string, dir string, here gate.Where, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		verdict, reason, err := decide(claims, dir, here)
		switch {
		case err != nil:
			return err
		case verdict == gate.Go:
			return nil
		case verdict == gate.Refuse:
			return errors.New(reason)
		case time.Now().After(deadline):
			return fmt.Errorf("after %s: %s", limit, reason)
		}
		time.Sleep(look)
	}
}

// decide asks for every claim of the pod; the first that is not Go counts.
func decide(claims []string, dir string, here gate.Where) (gate.Verdict, string, error) {
	for _, uid := range claims {
		data, err := os.ReadFile(filepath.Join(dir, uid+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gate.Refuse, "", fmt.Errorf("reading the records of claim %s: %w", uid, err)
		}
		if verdict, reason := gate.Decide(data, here); verdict != gate.Go {
			return verdict, reason, nil
		}
	}
	return gate.Go, "", nil
}

// whereabouts reads from the hook's state where the container is to start.
func whereabouts(stdin io.Reader) (gate.Where, error) {
	var state struct {
		PID         int               `json:"pid"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.NewDecoder(stdin).Decode(&state); err != nil {
		return gate.Where{}, fmt.Errorf("reading the hook's state from standard input: %w", err)
	}
	bootID, err := os.ReadFile(bootIDFile)
	if err != nil {
		return gate.Where{}, fmt.Errorf("reading the boot ID: %w", err)
	}
	here := gate.Where{BootID: strings.TrimSpace(string(bootID))}
	for _, key := range sandboxAnnotations {
		if id := state.Annotations[key]; id != "" {
			here.SandboxID = id
		}
	}
	here.Cookie, err = cookie(fmt.Sprintf("/proc/%d/ns/net", state.PID))
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
