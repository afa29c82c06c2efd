//go:build e2e

package upgrade

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/cluster"
)

const (
	// pingEvery is the interval of the packets to each address.
	pingEvery = 50 * time.Millisecond
	// pingWait is the time in which a packet's answer must come.
	pingWait = 2 * time.Second
	// neighbour is the last byte of the address from which packets are sent to a /24.
	neighbour = 253
)

// traffic sends packets to pods' addresses on their networks, from the host's side of the networks,
// and counts those without an answer.
type traffic struct {
	flows []*flow
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// flow is the traffic to one address.
type flow struct {
	name string
	to   *net.IPAddr
	conn *icmp.PacketConn

	mu       sync.Mutex
	sent     int
	answered map[int]bool
}

// aim is an address of a pod, on a network with a master or a bridge of the node.
type aim struct {
	pod    string
	node   *cluster.Node
	link   string
	bridge bool
	ip     net.IP
}

// begin sends packets to all aims that answer, until end. An address that does not answer at first
// cannot show what a move costs; those of mustAnswer have to.
func (f *fixture) begin(aims []aim, mustAnswer func(pod string) bool) *traffic {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t := &traffic{stop: cancel}
	for _, a := range aims {
		conn, err := f.listen(a)
		f.Must(err)
		one := &flow{name: fmt.Sprintf("%s on %s: %s", a.pod, a.node.Name(), a.ip), to: &net.IPAddr{IP: a.ip}, conn: conn, answered: map[int]bool{}}
		t.ended.Go(one.receive)
		if !one.answers() {
			_ = conn.Close()
			if mustAnswer(a.pod) {
				f.Fatalf("%s does not answer before anything has changed", one.name)
			}
			f.Logf("%s does not answer: no packets are sent to it", one.name)
			continue
		}
		t.flows = append(t.flows, one)
		t.ended.Go(func() { one.send(ctx) })
	}
	f.Cleanup(func() { t.end() })
	return t
}

// end stops the packets and returns how many were sent, and what was lost by address.
func (t *traffic) end() (sent int, lost []string) {
	t.stop()
	time.Sleep(pingWait) // the answers of the last packets
	for _, one := range t.flows {
		_ = one.conn.Close()
	}
	t.ended.Wait()
	for _, one := range t.flows {
		sent += one.sent
		if n := one.unanswered(one.sent); n > 0 {
			lost = append(lost, fmt.Sprintf("%s: %d of %d packets", one.name, n, one.sent))
		}
	}
	return sent, lost
}

// lost returns how many packets have had no answer in time.
func (t *traffic) lost() int {
	n := 0
	for _, one := range t.flows {
		n += one.lost()
	}
	return n
}

// listen gives the node an address of the aim's network, on the bridge or on an interface of its own on
// the master, and returns a socket that uses only this interface.
func (f *fixture) listen(a aim) (*icmp.PacketConn, error) {
	link := "probe-" + a.link
	if a.bridge {
		link = a.link
	}
	source := slices.Clone(a.ip.To4())
	source[3] = neighbour
	script := strings.NewReplacer("LINK", link, "MASTER", a.link, "SOURCE", source.String()).Replace(
		`ip link show LINK >/dev/null 2>&1 || ip link add LINK link MASTER type macvlan mode bridge; ip link set LINK up
ip addr replace SOURCE/24 dev LINK noprefixroute; echo 2 >/proc/sys/net/ipv4/conf/LINK/rp_filter`)
	if _, err := a.node.Exec(f.Ctx, "sh", "-ec", script); err != nil {
		return nil, err
	}
	ns, err := a.node.NetNS()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return listenIn(ns, link, source)
}

// listenIn opens a raw socket in a network namespace.
func listenIn(ns netns.NsHandle, link string, source net.IP) (conn *icmp.PacketConn, err error) {
	done := make(chan struct{})
	go func() { // on a thread that ends with it
		defer close(done)
		runtime.LockOSThread()
		if err = netns.Set(ns); err != nil {
			return
		}
		if conn, err = icmp.ListenPacket("ip4:icmp", source.String()); err != nil {
			return
		}
		raw, rawErr := conn.IPv4PacketConn().PacketConn.(syscall.Conn).SyscallConn()
		if err = rawErr; err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), link) })
	}()
	<-done
	return conn, err
}

// answers reports whether the address answers within some seconds. It resolves the neighbour, too.
func (w *flow) answers() bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(pingEvery) {
		if w.ping(0) == nil && w.has(0) {
			return true
		}
	}
	return false
}

func (w *flow) has(seq int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[seq]
}

// send sends packets until ctx ends.
func (w *flow) send(ctx context.Context) {
	w.mu.Lock()
	w.answered = map[int]bool{}
	w.mu.Unlock()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.mu.Lock()
			w.sent++
			w.mu.Unlock()
			_ = w.ping(w.sent) // a packet that cannot be sent is lost
		}
	}
}

// lost returns how many packets have had no answer, without those whose answer may still come.
func (w *flow) lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unanswered(w.sent - int(pingWait/pingEvery))
}

// unanswered counts the packets without an answer up to a number. A late answer to the packet 0 of answers does not
// count. The caller holds mu, unless the flow has ended.
func (w *flow) unanswered(last int) int {
	n := 0
	for i := 1; i <= last; i++ {
		if !w.answered[i] {
			n++
		}
	}
	return n
}

// ping sends one packet. Its number is in the data: that of ICMP has 16 bits.
func (w *flow) ping(number int) error {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 0x6e61, Data: binary.BigEndian.AppendUint64(nil, uint64(number))}}
	text, err := m.Marshal(nil)
	if err == nil {
		_, err = w.conn.WriteTo(text, w.to)
	}
	return err
}

// receive counts answers until the socket is closed.
func (w *flow) receive() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := w.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		m, err := icmp.ParseMessage(1, buffer[:n])
		if err != nil || m.Type != ipv4.ICMPTypeEchoReply || from.String() != w.to.String() {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && len(echo.Data) == 8 {
			w.mu.Lock()
			w.answered[int(binary.BigEndian.Uint64(echo.Data))] = true
			w.mu.Unlock()
		}
	}
}
