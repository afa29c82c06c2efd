package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// machineConfig has the setup of a machine, for its first process.
type machineConfig struct {
	Hostname string
	PIDFile  string // where it leaves its PID, as seen from outside
	Scratch  string // an empty folder
	Folders  []bind // private folders at usual places
	Files    []bind // private files in place of machine-wide ones
	// Writable makes the root file system read-only, except for these folders and the mounts.
	Writable []string
}

// bind makes Source appear at Target.
type bind struct{ Source, Target string }

// reportFD is the file descriptor to which the first process writes that the machine is
// ready, or why it is not.
const (
	reportFD = 3
	ready    = "ready"
)

// RunMachine runs as the first process of a machine. It is started in new namespaces, sets
// them up as the file says, and reaps processes until it is killed. Its end ends everything
// in the machine.
func RunMachine(configFile string) error {
	report := os.NewFile(reportFD, "report")
	err := setUpMachine(configFile)
	if err != nil {
		fmt.Fprint(report, err)
		return err
	}
	fmt.Fprint(report, ready)
	if err := report.Close(); err != nil {
		return err
	}
	return reapForever()
}

func setUpMachine(configFile string) error {
	content, err := os.ReadFile(configFile)
	if err != nil {
		return err
	}
	var config machineConfig
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("reading %s: %w", configFile, err)
	}
	// /proc is still the outside's, so self is the PID by which others know this process.
	self, err := identify("self")
	if err != nil {
		return fmt.Errorf("finding out the own PID: %w", err)
	}
	if err := self.write(config.PIDFile); err != nil {
		return fmt.Errorf("writing the PID file: %w", err)
	}
	if err := unix.Sethostname([]byte(config.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := config.mount(); err != nil {
		return err
	}
	// The network is configured from outside; only sysctls have to be set by a process in
	// it.
	for _, forwarding := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("enabling forwarding: %w", err)
		}
	}
	return nil
}

// reapForever reaps the processes that lose their parent.
func reapForever() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		switch {
		case err == nil || errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			<-children
		default:
			return fmt.Errorf("waiting for processes: %w", err)
		}
	}
}
