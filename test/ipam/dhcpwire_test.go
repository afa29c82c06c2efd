//go:build e2e

package ipam

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/cluster"
)

// releases has the DHCPRELEASEs that were sent on an interface of a node, with their source
// address, by client ID. The server's file does not show them: the reference plugin sends
// them from 0.0.0.0, and Linux drops such a packet unless its target is a broadcast
// address. A server with a UDP socket, such as dnsmasq, never gets the packet, and keeps
// the lease until it expires.
type releases struct {
	socket int
	done   chan struct{}

	mu   sync.Mutex
	sent map[string]netip.Addr
}

// listen opens a socket that reads the packets of an interface.
func listen(n *cluster.Node, name string) (*releases, error) {
	r := &releases{done: make(chan struct{}), sent: map[string]netip.Addr{}}
	err := n.DoInNetNS("/proc/1/ns/net", func() (err error) {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		protocol := binary.BigEndian.Uint16([]byte{unix.ETH_P_IP & 0xff, unix.ETH_P_IP >> 8})
		if r.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(protocol)); err != nil {
			return err
		}
		return unix.Bind(r.socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Index})
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s of %s: %w", name, n.Name(), err)
	}
	// So that close is noticed.
	if err := unix.SetsockoptTimeval(r.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		return nil, err
	}
	return r, nil
}

// run reads packets until ctx ends, and closes the socket.
func (r *releases) run(ctx context.Context) {
	defer close(r.done)
	defer unix.Close(r.socket)
	packet := make([]byte, 1600)
	for ctx.Err() == nil {
		size, _, err := unix.Recvfrom(r.socket, packet, 0)
		if err != nil {
			continue // nothing was sent for a while
		}
		if client, source, ok := parseRelease(packet[:size]); ok {
			r.mu.Lock()
			r.sent[client] = source
			r.mu.Unlock()
		}
	}
}

// of returns the source address of a client's DHCPRELEASE.
func (r *releases) of(client string) (netip.Addr, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	source, ok := r.sent[client]
	return source, ok
}

// The sizes of headers, and the options and the message type that matter here.
const (
	udpHeader     = 8
	bootpHeader   = 240
	dhcpServer    = 67
	dhcpRelease   = 7
	optionMessage = 53
	optionClient  = 61
	optionEnd     = 255
)

// parseRelease returns the client ID and the source address of an IPv4 packet
// that is a DHCPRELEASE.
func parseRelease(packet []byte) (client string, source netip.Addr, ok bool) {
	if len(packet) < 20 || packet[9] != unix.IPPROTO_UDP {
		return "", source, false
	}
	header := int(packet[0]&0xf) * 4
	if len(packet) < header+udpHeader+bootpHeader || binary.BigEndian.Uint16(packet[header+2:]) != dhcpServer {
		return "", source, false
	}
	source, _ = netip.AddrFromSlice(packet[12:16])
	options := packet[header+udpHeader+bootpHeader:]
	for len(options) > 1 && options[0] != optionEnd && len(options) >= 2+int(options[1]) {
		value := options[2 : 2+int(options[1])]
		switch options[0] {
		case optionMessage:
			ok = len(value) == 1 && value[0] == dhcpRelease
		case optionClient:
			client = string(value)
		}
		options = options[2+len(value):]
	}
	return client, source, ok
}
