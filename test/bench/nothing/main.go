// Command nothing is a CNI plugin that gives a pod nothing. It is the cluster's network in
// measurements of other costs, and, since it can take long, a plugin that waits for a
// remote service. All of it is in main.go.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// conf is the part of the configuration that the plugin reads.
type conf struct {
	CNIVersion string `json:"cniVersion"`
	// Delay is how long an ADD takes; none by default.
	Delay string `json:"delay"`
	// Began is a file that is created when such an ADD begins.
	Began string `json:"began"`
}

func main() {
	if err := run(os.Getenv("CNI_COMMAND"), os.Stdin); err != nil {
		_ = types.NewError(types.ErrInternal, err.Error(), "").Print()
		os.Exit(1)
	}
}

func run(command string, stdin io.Reader) error {
	if command == "VERSION" {
		return version.All.Encode(os.Stdout)
	}
	var c conf
	if err := json.NewDecoder(stdin).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if command != "ADD" {
		return nil
	}
	if err := c.wait(); err != nil {
		return err
	}
	_, err := fmt.Printf("{\"cniVersion\":%q}\n", c.CNIVersion)
	return err
}

func (c conf) wait() error {
	if c.Delay == "" {
		return nil
	}
	delay, err := time.ParseDuration(c.Delay)
	if err != nil {
		return err
	}
	if c.Began != "" {
		if err := os.WriteFile(c.Began, nil, 0o600); err != nil {
			return err
		}
	}
	time.Sleep(delay)
	return nil
}
