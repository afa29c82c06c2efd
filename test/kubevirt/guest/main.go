// Program guest is the first process of the guest of a virtual machine. It gives the guest's only interface an
// address, pings a neighbour, prints how often the neighbour has answered, and ends the machine. The kernel's
// command line has both addresses: lane.address=10.0.0.2/24 lane.neighbour=10.0.0.1.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	pings   = 5
	timeout = 10 * time.Second
)

func main() {
	answers, err := run()
	fmt.Printf("\nguest: pings=%d answers=%d error=%v\n", pings, answers, err)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() (answers int, err error) {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 0, fmt.Errorf("mounting /proc: %w", err)
	}
	if err := loadModules("/lib/modules"); err != nil {
		return 0, err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return 0, err
	}
	if err := configure(parameter(string(line), "lane.address")); err != nil {
		return 0, err
	}
	neighbour := parameter(string(line), "lane.neighbour")
	for i := range pings {
		if err = ping(neighbour, uint16(i)); err == nil {
			answers++
		}
	}
	return answers, err
}

// parameter returns a parameter of the kernel's command line.
func parameter(line, name string) string {
	for _, field := range strings.Fields(line) {
		if value, found := strings.CutPrefix(field, name+"="); found {
			return value
		}
	}
	return ""
}

// loadModules loads the modules in the order of their list.
func loadModules(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		file, err := os.Open(filepath.Join(dir, name+".ko"))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("loading module %s: %w", name, err)
		}
	}
	return nil
}

// configure gives the only interface besides lo an address and sets it up.
func configure(address string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("reading address %q: %w", address, err)
	}
	for _, l := range links {
		if l.Attrs().Name == "lo" {
			continue
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return fmt.Errorf("giving %s address %s: %w", l.Attrs().Name, address, err)
		}
		return netlink.LinkSetUp(l)
	}
	return errors.New("the guest has no interface")
}

// ping sends an echo request and waits for its answer.
func ping(address string, sequence uint16) error {
	connection, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: net.ParseIP(address)})
	if err != nil {
		return err
	}
	defer connection.Close()
	request := make([]byte, 16)
	request[0] = 8 // echo request
	binary.BigEndian.PutUint16(request[6:], sequence)
	binary.BigEndian.PutUint16(request[2:], checksum(request))
	if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := connection.Write(request); err != nil {
		return fmt.Errorf("sending an echo request to %s: %w", address, err)
	}
	for {
		answer := make([]byte, 128)
		n, _, err := connection.ReadFromIP(answer) // without the IP header
		if err != nil {
			return fmt.Errorf("waiting for the answer of %s: %w", address, err)
		}
		if n >= 8 && answer[0] == 0 && binary.BigEndian.Uint16(answer[6:]) == sequence {
			return nil
		}
	}
}

// checksum returns the checksum of an ICMP message.
func checksum(message []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
