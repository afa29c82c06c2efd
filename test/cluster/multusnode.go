package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	multusDaemon = "multus-daemon"
	multusShim   = "multus-shim"
	multusSocket = "/run/multus"

	cniConfigDir  = "/etc/cni/net.d"
	cniPluginDir  = "/opt/cni/bin"
	multusConfig  = cniConfigDir + "/00-multus.conf"
	multusHidden  = "/var/tmp/00-multus.conf" // where the runtime does not see it
	multusFolder  = cniConfigDir + "/multus.d"
	multusAccount = "/run/secrets/kubernetes.io/serviceaccount"
)

//go:embed templates/multus.yaml
var multusManifest string

// Multus installs Multus as the CNI of a node, and removes it.
type Multus struct{ node *Node }

// Multus returns the node's Multus, which need not be installed.
func (n *Node) Multus() Multus { return Multus{n} }

// Install makes Multus the node's CNI, as its DaemonSet would. It puts the shim among the
// plugins and runs the daemon, with its service account, as a process of the node; the
// daemon writes a configuration that precedes the cluster's own. folder is that of
// BuildThickMultus, and the CRD must exist. Install returns when the runtime uses Multus.
// A reboot ends Multus.
func (m Multus) Install(ctx context.Context, folder string) error {
	if err := m.writeFiles(ctx, folder); err != nil {
		return fmt.Errorf("installing Multus on %s: %w", m.node.name, err)
	}
	return m.node.start(ctx, m.daemon(folder))
}

// Remove ends the daemon, which removes its configuration, and returns when the runtime
// uses the cluster's own network. Nobody deletes the networks of pods that Multus has
// attached, as on any cluster without Multus.
func (m Multus) Remove(ctx context.Context) error {
	n := m.node
	err := n.Kill(ctx, multusDaemon, unix.SIGTERM)
	for _, path := range []string{multusConfig, multusFolder, multusAccount, cniPluginDir + "/" + multusShim} {
		outside, pathErr := n.HostPath(path)
		if pathErr == nil {
			pathErr = os.RemoveAll(outside)
		}
		err = errors.Join(err, pathErr)
	}
	if err != nil {
		return fmt.Errorf("removing Multus from %s: %w", n.name, err)
	}
	return m.await(ctx, multusShim, false)
}

// await waits until the runtime uses a program of Multus, or does not.
func (m Multus) await(ctx context.Context, program string, want bool) error {
	what := fmt.Sprintf("waiting until the runtime of %s uses %s: %t", m.node.name, program, want)
	return poll(ctx, startLimit, what, func(ctx context.Context) (bool, error) {
		uses, err := m.node.Runtime().Uses(ctx, program)
		return err == nil && uses == want, err
	})
}

// writeFiles creates Multus' account in the cluster, and writes its files to the node.
func (m Multus) writeFiles(ctx context.Context, folder string) error {
	n := m.node
	if _, err := n.cluster.KubectlInput(ctx, multusManifest, "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := n.cluster.Kubectl(ctx, "-n", "kube-system", "create", "token", "multus", "--duration=24h")
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(n.cluster.secrets.path(certificateFile))
	if err != nil {
		return err
	}
	shim, err := os.ReadFile(filepath.Join(folder, multusShim))
	if err != nil {
		return err
	}
	config, err := json.MarshalIndent(multusDaemonConfig(), "", "  ")
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path    string
		content []byte
		mode    fs.FileMode
	}{
		{cniPluginDir + "/" + multusShim, shim, 0o755},
		{multusAccount + "/token", []byte(strings.TrimSpace(token)), 0o600},
		{multusAccount + "/ca.crt", authority, 0o644},
		{multusFolder + "/daemon-config.json", config, 0o644},
	} {
		outside, err := n.HostPath(f.path)
		if err != nil {
			return err
		}
		if err := replaceFile(outside, f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile replaces a file, which may be a running program.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// The runtime reads no configuration of this name.
	next := path + ".next"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// multusDaemonConfig returns the daemon's configuration as in Multus' own manifest, with
// the paths of the node.
func multusDaemonConfig() object {
	return object{
		"cniVersion":          "0.3.1",
		"logLevel":            "verbose",
		"logToStderr":         true,
		"cniConfigDir":        cniConfigDir,
		"multusAutoconfigDir": cniConfigDir,
		"multusConfigFile":    "auto",
		"socketDir":           multusSocket,
		"daemonSocketDir":     multusSocket,
		"binDir":              cniPluginDir,
	}
}

// daemon describes the daemon. It works once the runtime uses the shim.
func (m Multus) daemon(folder string) component {
	n := m.node
	c := n.program(folder, multusDaemon, "-config", multusFolder+"/daemon-config.json")
	c.env = []string{
		"KUBERNETES_SERVICE_HOST=" + n.cluster.options.families()[0].service, "KUBERNETES_SERVICE_PORT=443", "MULTUS_NODE_NAME=" + n.name,
	}
	c.check = func(ctx context.Context) error {
		if err := m.ready(ctx); err != nil {
			return err
		}
		uses, err := n.Runtime().Uses(ctx, multusShim)
		if err == nil && !uses {
			err = errors.New("the runtime has not read its configuration yet")
		}
		return err
	}
	return c
}

// ready asks the daemon for its health, by the socket that the shim uses.
func (m Multus) ready(ctx context.Context) error {
	socket, err := m.node.HostPath(multusSocket + "/multus.sock")
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return get(ctx, &http.Client{Transport: transport, Timeout: 5 * time.Second}, "http://multus/healthz", nil)
}
