package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/gate"
)

// sandboxAge returns how long ago the sandbox of a container was started: the age of the
// process whose network namespace the container's bundle names. It returns zero if that is
// unknown, for example because the runtime names the namespace by another path.
func sandboxAge(bundle string) time.Duration {
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return 0
	}
	var config struct {
		Linux struct {
			Namespaces []struct {
				Type string `json:"type"`
				Path string `json:"path"`
			} `json:"namespaces"`
		} `json:"linux"`
	}
	if json.Unmarshal(data, &config) != nil {
		return 0
	}
	for _, ns := range config.Linux.Namespaces {
		if pid, ok := gate.SandboxProcess(ns.Path); ok && ns.Type == "network" {
			age, _ := processAge(pid)
			return age
		}
	}
	return 0
}

// processAge returns how long ago a process was started, to a hundredth of a second.
func processAge(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's start time: %w", err)
	}
	start, err := gate.StartTime(string(stat))
	if err != nil {
		return 0, err
	}
	// CLOCK_BOOTTIME is the clock of start times in /proc.
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("reading the time since boot: %w", err)
	}
	return time.Duration(now.Nano()) - start, nil
}
