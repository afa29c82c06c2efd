package nodecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Inspect lists the interfaces of the process' network namespace.
func Inspect() (probe.Inspection, error) {
	out := probe.Inspection{APIVersion: probe.APIVersion, Kind: probe.InspectionKind, Links: []probe.Link{}}
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
		l := probe.Link{
			Name: i.Name, MAC: i.HardwareAddr.String(), MTU: i.MTU, Up: i.Flags&net.FlagUp != 0, Running: i.Flags&net.FlagRunning != 0,
		}
		for _, a := range addrs {
			l.Addresses = append(l.Addresses, a.String())
		}
		out.Links = append(out.Links, l)
	}
	return out, nil
}

// prefixes returns the addresses of an interface, or of all if ifName is empty, without
// link-local ones.
func prefixes(ifName string) ([]netip.Prefix, error) {
	inspection, err := Inspect()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, l := range inspection.Links {
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

// Serve answers datagrams on each address of the pod until ctx ends, from the address that
// they were sent to. A pod has all its addresses before its containers start.
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
			continue // the address is tentative; the kernel answers ICMP later
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

// longest is more than the length of a request.
const longest = 64

// answer sends datagrams back until the socket is closed.
func answer(socket net.PacketConn) {
	buffer := make([]byte, longest)
	for {
		n, from, err := socket.ReadFrom(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // an ICMP error to an earlier answer
		}
		_, _ = socket.WriteTo(buffer[:n], from)
	}
}
