// Package canaryecho is what runs in a canary: it tells the pod's interfaces, answers
// datagrams, and pings other canaries. It takes no privilege: ICMP echo goes by
// the kernel's ping sockets, which the pod's sysctl net.ipv4.ping_group_range
// permits; where it does not, a datagram is sent to the other canary instead.
package canaryecho

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/canary"
)

// Look tells the interfaces of the network namespace that the process is in.
func Look() (canary.Look, error) {
	out := canary.Look{APIVersion: canary.APIVersion, Kind: canary.LookKind, Links: []canary.Link{}}
	all, err := net.Interfaces()
	if err != nil {
		return out, fmt.Errorf("listing interfaces: %w", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return out, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		l := canary.Link{
			Name: i.Name, MAC: i.HardwareAddr.String(), MTU: i.MTU, Up: i.Flags&net.FlagUp != 0, Running: i.Flags&net.FlagRunning != 0,
		}
		for _, a := range addrs {
			l.Addresses = append(l.Addresses, a.String())
		}
		out.Links = append(out.Links, l)
	}
	return out, nil
}

// prefixes are the addresses of all interfaces, or of one, but for those of the
// link alone.
func prefixes(ifName string) ([]netip.Prefix, error) {
	look, err := Look()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, l := range look.Links {
		if ifName != "" && l.Name != ifName {
			continue
		}
		for _, text := range l.Addresses {
			if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().IsLinkLocalUnicast() {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// Serve answers datagrams on each address of the pod until ctx ends, from the
// address that they were sent to. A pod has all of them before its containers
// start.
func Serve(ctx context.Context, port int) error {
	all, err := prefixes("")
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	var sockets []net.PacketConn
	for _, p := range all {
		address := net.JoinHostPort(p.Addr().String(), strconv.Itoa(port))
		socket, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", address)
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			continue // it is not sure yet that nobody else has it; the kernel answers ICMP later
		}
		if err != nil {
			closeAll(sockets)
			return fmt.Errorf("listening on %s: %w", address, err)
		}
		sockets = append(sockets, socket)
		group.Go(func() { answer(socket) })
	}
	<-ctx.Done()
	closeAll(sockets)
	return nil
}

func closeAll(sockets []net.PacketConn) {
	for _, s := range sockets {
		_ = s.Close()
	}
}

// longest is more than a request has.
const longest = 64

// answer sends back what comes, until the socket is closed.
func answer(socket net.PacketConn) {
	buffer := make([]byte, longest)
	for {
		n, from, err := socket.ReadFrom(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // of one datagram: an ICMP error to an earlier answer
		}
		_, _ = socket.WriteTo(buffer[:n], from)
	}
}
