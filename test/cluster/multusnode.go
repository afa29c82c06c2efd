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
	multusFolder  = cniConfigDir + "/multus.d"
	multusAccount = "/run/secrets/kubernetes.io/serviceaccount"
)

//go:embed templates/multus.yaml
var multusManifest string

// InstallMultus makes Multus the node's CNI, as its DaemonSet would: the shim
// among the plugins, the daemon with its service account as a process of the
// node, and before the cluster's own configuration one that the daemon writes.
// folder is that of BuildThickMultus; the CRD must be there. It returns when
// the runtime has turned to Multus. After a reboot it has to be done again.
func (n *Node) InstallMultus(ctx context.Context, folder string) error {
	if err := n.layOutMultus(ctx, folder); err != nil {
		return fmt.Errorf("installing Multus on %s: %w", n.name, err)
	}
	return n.start(ctx, n.multusDaemon(folder))
}

// RemoveMultus ends the daemon, which takes its configuration along, and
// returns when the runtime has turned to the cluster's own network. Networks of
// pods that Multus attached are not taken away when these end: as on any
// cluster, nobody knows of them any more.
func (n *Node) RemoveMultus(ctx context.Context) error {
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
	return poll(ctx, startLimit, "waiting until the runtime does without Multus", func(ctx context.Context) (bool, error) {
		uses, err := n.RuntimeUses(ctx, multusShim)
		return err == nil && !uses, err
	})
}

func (n *Node) layOutMultus(ctx context.Context, folder string) error {
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

// replaceFile puts a file in the place of another one, which may be a program
// that runs.
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

// multusDaemonConfig is that of Multus' own manifest, without the detours of a
// container.
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

func (n *Node) multusDaemon(folder string) component {
	c := n.program(folder, multusDaemon, "-config", multusFolder+"/daemon-config.json")
	c.env = []string{
		"KUBERNETES_SERVICE_HOST=" + serviceIP, "KUBERNETES_SERVICE_PORT=443", "MULTUS_NODE_NAME=" + n.name,
	}
	c.check = func(ctx context.Context) error {
		if err := n.multusReady(ctx); err != nil {
			return err
		}
		uses, err := n.RuntimeUses(ctx, multusShim)
		if err == nil && !uses {
			err = errors.New("the runtime has not read its configuration yet")
		}
		return err
	}
	return c
}

// multusReady asks the daemon as the shim does.
func (n *Node) multusReady(ctx context.Context) error {
	socket, err := n.HostPath(multusSocket + "/multus.sock")
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return get(ctx, &http.Client{Transport: transport, Timeout: 5 * time.Second}, "http://multus/healthz", nil)
}
