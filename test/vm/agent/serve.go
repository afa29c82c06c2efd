package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/vm/wire"
)

// serve sets the machine up and runs the host's commands as long as the guest runs.
func serve() error {
	content, err := os.ReadFile(wire.BootFile)
	if err != nil {
		return err
	}
	var config wire.Boot
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("reading %s: %w", wire.BootFile, err)
	}
	if err := unix.Sethostname([]byte(config.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := setUpUplink(config); err != nil {
		return fmt.Errorf("connecting to the host: %w", err)
	}
	// The server reports the error to the host.
	problem := setUpHardware(config)
	http.HandleFunc("POST /run", answerRun)
	http.HandleFunc("GET /net", answerNet)
	http.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if problem != nil {
			http.Error(w, problem.Error(), http.StatusInternalServerError)
		}
	})
	return http.ListenAndServe(":"+wire.Port, nil) //nolint:gosec // the guest's life is the limit
}

func answerRun(w http.ResponseWriter, r *http.Request) {
	var command wire.Command
	if err := json.NewDecoder(r.Body).Decode(&command); err != nil || len(command.Argv) == 0 {
		http.Error(w, fmt.Sprintf("reading the command: %v", err), http.StatusBadRequest)
		return
	}
	if err := json.NewEncoder(w).Encode(run(command)); err != nil {
		fmt.Fprintln(os.Stderr, "vm-agent: answering:", err)
	}
}

// answerNet describes a network namespace. It does not start a program, which would take an
// emulated processor a tenth of a second, because the host asks often.
func answerNet(w http.ResponseWriter, r *http.Request) {
	seen, err := wire.Net{}, error(nil)
	if pod := r.URL.Query().Get("pod"); pod == "" {
		seen, err = describeNet()
	} else if enterErr := inNamespaceOf(pod, func() { seen, err = describeNet() }); enterErr != nil {
		err = enterErr
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := json.NewEncoder(w).Encode(seen); err != nil {
		fmt.Fprintln(os.Stderr, "vm-agent: answering:", err)
	}
}

// run runs a command to its end, or starts it as a daemon.
func run(command wire.Command) wire.Outcome {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(command.Argv[0], command.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(command.Stdin), &stdout, &stderr
	if command.Log != "" {
		log, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return wire.Outcome{Error: err.Error()}
		}
		defer log.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	err := startIn(command.Pod, cmd)
	if err == nil && command.Log == "" {
		err = cmd.Wait()
	}
	outcome := wire.Outcome{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		outcome.Code = ended.ExitCode()
	case err != nil:
		outcome.Error = err.Error()
	}
	return outcome
}

// startIn starts a command in the network namespace of a pod, or here.
func startIn(pod string, cmd *exec.Cmd) (err error) {
	if pod == "" {
		return cmd.Start()
	}
	if entering := inNamespaceOf(pod, func() { err = cmd.Start() }); entering != nil {
		return entering
	}
	return err
}

// inNamespaceOf calls a function in the network namespace of a pod, on a thread that ends
// afterwards.
func inNamespaceOf(pod string, do func()) error {
	path, err := namespaceOf(pod)
	if err != nil {
		return err
	}
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("entering %s: %w", path, err)
			return
		}
		do()
		result <- nil
	}()
	return <-result
}

// namespaceOf finds the network namespace of a pod by the control group of one
// of its processes.
func namespaceOf(pod string) (string, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return "", err
	}
	for _, path := range groups {
		// Processes may end meanwhile.
		if group, err := os.ReadFile(path); err == nil && bytes.Contains(group, []byte("/pod"+pod+"/")) {
			return filepath.Join(filepath.Dir(path), "ns/net"), nil
		}
	}
	return "", fmt.Errorf("no process is of pod %s", pod)
}
