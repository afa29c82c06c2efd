package nodecmd

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
)

// PingOptions control pings.
type PingOptions struct {
	// Interface is the interface to ping from; empty means any.
	Interface string
	// Count is the number of requests to an address, one after the other. Wait is the
	// time to wait for each answer.
	Count int
	Wait  time.Duration
	// Port is the UDP port on which other canaries answer.
	Port int
}

// atOnce limits the number of addresses that are pinged at a time.
const atOnce = 32

// PingAll pings all targets, and returns the results in their order.
func PingAll(ctx context.Context, o PingOptions, targets []netip.Addr) (probe.Pings, error) {
	out := probe.Pings{APIVersion: probe.APIVersion, Kind: probe.PingsKind, Pings: make([]probe.Ping, len(targets))}
	own, err := prefixes(o.Interface)
	if err != nil {
		return out, err
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, t := range targets {
		group.Go(func() error {
			out.Pings[i] = o.one(ctx, own, t.Unmap())
			return nil
		})
	}
	return out, group.Wait()
}

// one pings an address.
func (o PingOptions) one(ctx context.Context, own []netip.Prefix, to netip.Addr) probe.Ping {
	out := probe.Ping{Address: to.String()}
	from, ok := source(own, to)
	if !ok {
		out.Error = fmt.Sprintf("%s has no address of the family of %s", o.Interface, to)
		return out
	}
	out.Via = via(from, to)
	c, err := dialICMP(from, to)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		c, err = dialUDP(ctx, from, to, o.Port)
	}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	defer func() { _ = c.close() }()
	out.Method = c.method()
	var times []time.Duration
	for i := range o.Count {
		if ctx.Err() != nil {
			break
		}
		out.Sent++
		took, err := o.request(c, i)
		switch {
		case err == nil:
			times = append(times, took)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			out.Error = err.Error() // of the last request; others may have been answered
		}
	}
	out.Received = len(times)
	if out.Received > 0 {
		out.Error = ""
		slices.Sort(times)
		out.MedianMicros = max(times[len(times)/2].Microseconds(), 1)
	}
	return out
}

// source returns the address to ping from: an address in the target's subnet, or else one of
// its family.
func source(own []netip.Prefix, to netip.Addr) (netip.Addr, bool) {
	var out netip.Addr
	for _, p := range own {
		if p.Addr().Is4() != to.Is4() {
			continue
		}
		if p.Contains(to) {
			return p.Addr(), true
		}
		if !out.IsValid() {
			out = p.Addr()
		}
	}
	return out, out.IsValid()
}

// via returns the interface through which the kernel sends; empty if it has no route.
func via(from, to netip.Addr) string {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(routes) == 0 {
		return ""
	}
	link, err := net.InterfaceByIndex(routes[0].LinkIndex)
	if err != nil {
		return ""
	}
	return link.Name
}

// conversation exchanges requests and answers with an address.
type conversation interface {
	method() string
	// send sends a request with a number and a payload. receive waits for an answer
	// until the deadline; same is true if it answers that request.
	send(number int, payload []byte) error
	receive(number int, payload []byte, deadline time.Time) (same bool, err error)
	close() error
}

// request sends a request, and returns the time until its answer.
func (o PingOptions) request(c conversation, number int) (time.Duration, error) {
	payload := make([]byte, 16)
	_, _ = rand.Read(payload) // never fails
	began := time.Now()
	if err := c.send(number, payload); err != nil {
		// The kernel reports a failed ARP request to the next request.
		if errors.Is(err, unix.EHOSTUNREACH) {
			return 0, os.ErrDeadlineExceeded
		}
		return 0, fmt.Errorf("sending: %w", err)
	}
	for {
		same, err := c.receive(number, payload, began.Add(o.Wait))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.EHOSTUNREACH):
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, fmt.Errorf("receiving: %w", err)
		case same:
			return time.Since(began), nil
		}
	}
}

// pinger is a ping socket of the kernel.
type pinger struct {
	socket *icmp.PacketConn
	to     netip.Addr
}

func dialICMP(from, to netip.Addr) (conversation, error) {
	network := "udp4" // x/net's name of ping sockets
	if to.Is6() {
		network = "udp6"
	}
	socket, err := icmp.ListenPacket(network, from.String())
	if err != nil {
		return nil, fmt.Errorf("opening a ping socket: %w", err)
	}
	return &pinger{socket, to}, nil
}

func (p *pinger) method() string { return probe.ICMP }
func (p *pinger) close() error   { return p.socket.Close() }

func (p *pinger) send(number int, payload []byte) error {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{Seq: number, Data: payload}}
	if p.to.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest
	}
	text, err := m.Marshal(nil)
	if err != nil {
		return err
	}
	_, err = p.socket.WriteTo(text, &net.UDPAddr{IP: p.to.AsSlice()})
	return err
}

func (p *pinger) receive(number int, payload []byte, deadline time.Time) (bool, error) {
	if err := p.socket.SetReadDeadline(deadline); err != nil {
		return false, err
	}
	buffer := make([]byte, 512)
	n, _, err := p.socket.ReadFrom(buffer)
	if err != nil {
		return false, err
	}
	protocol := 1 // ICMP
	if p.to.Is6() {
		protocol = 58
	}
	m, err := icmp.ParseMessage(protocol, buffer[:n])
	if err != nil {
		return false, nil //nolint:nilerr // not an answer
	}
	reply, ok := m.Body.(*icmp.Echo)
	return ok && (m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply) && reply.Seq == number && bytes.Equal(reply.Data, payload), nil
}

// datagrams is a UDP socket to another canary.
type datagrams struct{ net.Conn }

func dialUDP(ctx context.Context, from, to netip.Addr, port int) (conversation, error) {
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: from.AsSlice()}}
	c, err := dialer.DialContext(ctx, "udp", net.JoinHostPort(to.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("opening a UDP socket: %w", err)
	}
	return datagrams{c}, nil
}

func (d datagrams) method() string { return probe.UDP }
func (d datagrams) close() error   { return d.Close() }

func (d datagrams) send(_ int, payload []byte) error {
	_, err := d.Write(payload)
	return err
}

func (d datagrams) receive(_ int, payload []byte, deadline time.Time) (bool, error) {
	if err := d.SetReadDeadline(deadline); err != nil {
		return false, err
	}
	buffer := make([]byte, longest)
	n, err := d.Read(buffer)
	if errors.Is(err, unix.ECONNREFUSED) {
		return false, os.ErrDeadlineExceeded // the other canary does not listen
	}
	return err == nil && bytes.Equal(buffer[:n], payload), err
}
