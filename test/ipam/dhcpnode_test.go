//go:build e2e

package ipam

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// The files of the DHCP server and of the plugin's daemon on the node.
const (
	leaseFile  = "/run/nadra-dnsmasq.leases"
	serverPID  = "/run/nadra-dnsmasq.pid"
	serverLog  = "/run/nadra-dnsmasq.log"
	daemonPID  = "/run/nadra-dhcp.pid"
	daemonLog  = "/run/nadra-dhcp.log"
	daemonSock = "/run/cni/dhcp.sock"
)

// segment is the interface of the node on which the DHCP server answers, and
// the master of macvlans beside it.
const segment, dhcpMaster = "dh0", "dhv"

// dnsmasq returns the DHCP server and the folder of the libraries that it needs
// besides those of this machine. Debian's package is unpacked, not installed:
// an installed server would be started.
func dnsmasq(ctx context.Context) (program, libraries string, err error) {
	if program, err = exec.LookPath("dnsmasq"); err == nil {
		return program, "", nil
	}
	packages, err := lab.Missing(ctx, "dnsmasq-base")
	if err != nil {
		return "", "", err
	}
	folder, err := cluster.Kit{
		Suite: "ipam", Name: "dnsmasq", Salt: packages,
		Make: func(ctx context.Context, into string) error { return lab.Unpack(ctx, into, packages...) },
	}.Build(ctx, os.Stderr)
	if err != nil {
		return "", "", fmt.Errorf("unpacking dnsmasq (on other systems than Debian install it): %w", err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "usr/lib/*-linux-gnu*"))
	if err != nil {
		return "", "", err
	}
	return filepath.Join(folder, "usr/sbin/dnsmasq"), strings.Join(found, ":"), nil
}

// startServer starts the DHCP server on the node. Its leases last two minutes, the shortest
// that it supports, and clients renew them after four seconds.
func startServer(ctx context.Context, n *cluster.Node) error {
	program, libraries, err := dnsmasq(ctx)
	if err != nil {
		return err
	}
	_, err = n.Exec(ctx, "sh", "-ec", strings.NewReplacer(
		"SEGMENT", segment, "MASTER", dhcpMaster, "LIBRARIES", libraries, "PROGRAM", program, "LEASES", leaseFile, "PID", serverPID, "LOG", serverLog,
	).Replace(`
		ip link add SEGMENT type bridge; ip addr add 10.177.0.1/24 dev SEGMENT; ip link set SEGMENT up
		ip link add MASTER type veth peer name MASTERp; ip link set MASTERp master SEGMENT; ip link set MASTERp up; ip link set MASTER up
		LD_LIBRARY_PATH=LIBRARIES PROGRAM --conf-file=/dev/null --port=0 --interface=SEGMENT --bind-interfaces --user=root \
			--dhcp-range=10.177.0.10,10.177.0.50,2m --dhcp-option=option:T1,4 --dhcp-leasefile=LEASES --pid-file=PID --log-dhcp --log-facility=LOG </dev/null >/dev/null 2>&1
	`))
	return err
}

// startDaemon starts the plugin's daemon on the node and returns when it
// listens.
func startDaemon(ctx context.Context, n *cluster.Node) error {
	if _, err := n.Exec(ctx, "sh", "-c", "setsid /opt/cni/bin/dhcp daemon -broadcast -pidfile "+daemonPID+" </dev/null >>"+daemonLog+" 2>&1 &"); err != nil {
		return err
	}
	return lab.Eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		_, err := n.Exec(ctx, "test", "-S", daemonSock)
		return err
	})
}

// stopDaemon ends the daemon and returns when its socket is gone.
func stopDaemon(ctx context.Context, n *cluster.Node) error {
	if _, err := n.Exec(ctx, "sh", "-c", "kill $(cat "+daemonPID+")"); err != nil {
		return err
	}
	return lab.Eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		_, err := n.Exec(ctx, "test", "!", "-e", daemonSock)
		return err
	})
}

// lease is a line of the server's file.
type lease struct {
	address netip.Addr
	expires time.Time
	client  string // sandbox/network/interface, as the daemon names it
}

// leases returns the leases that the server has given.
func leases(n *cluster.Node) ([]lease, error) {
	path, err := n.HostPath(leaseFile)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []lease
	for line := range strings.Lines(string(content)) {
		f := strings.Fields(line) // expiry, MAC, address, host name, client ID
		if len(f) != 5 {
			return nil, fmt.Errorf("reading %s: line %q has %d fields, want 5", leaseFile, line, len(f))
		}
		seconds, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", leaseFile, err)
		}
		address, err := netip.ParseAddr(f[2])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", leaseFile, err)
		}
		client, err := hex.DecodeString(strings.ReplaceAll(f[4], ":", ""))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", leaseFile, err)
		}
		out = append(out, lease{address, time.Unix(seconds, 0), string(client)})
	}
	return out, nil
}
