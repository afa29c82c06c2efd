package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/podnet"
)

// hostLinks knows the network interfaces of the host. The driver runs in the
// host's network namespace.
type hostLinks struct {
	// sysRoot is where sysfs is mounted for that namespace.
	sysRoot string
}

// link is what devices need to know of one interface.
type link struct {
	// pci are the standard attributes of the PCI function that the interface
	// sits on; none for a virtual one.
	pci pciAttributes
}

// list returns the interfaces by name.
func (h hostLinks) list() (map[string]link, error) {
	links, err := podnet.Dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	out := make(map[string]link, len(links))
	for _, l := range links {
		attrs := l.Attrs()
		found := link{pci: h.pciAttributes(attrs.Name)}
		out[attrs.Name] = found
		for _, alt := range attrs.AltNames {
			out[alt] = found
		}
	}
	return out, nil
}

// pciAttributes are those that align a network with other devices. What sysfs
// does not tell is left out.
func (h hostLinks) pciAttributes(name string) pciAttributes {
	address := h.pciAddress(name)
	if address == "" {
		return nil
	}
	out := pciAttributes{}
	set := func(a deviceattribute.DeviceAttribute, err error) {
		if err == nil {
			out[a.Name] = a.Value
		}
	}
	root := deviceattribute.WithFSFromRoot(h.sysRoot)
	set(deviceattribute.GetPCIBusIDAttribute(address))
	set(deviceattribute.GetPCIeRootAttributeByPCIBusID(address, root))
	set(deviceattribute.GetNUMANodeAttributeByPCIBusID(address, deviceattribute.ScalarAttribute, root))
	return out
}

// pciAddress reads /sys/class/net/<name>/device, a link to the function.
func (h hostLinks) pciAddress(name string) string {
	device := filepath.Join(h.sysRoot, "class/net", name, "device")
	subsystem, err := os.Readlink(filepath.Join(device, "subsystem"))
	if err != nil || filepath.Base(subsystem) != "pci" {
		return ""
	}
	target, err := os.Readlink(device)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// watch calls changed after interfaces come, go or are renamed, until ctx
// ends. A lost subscription is taken up again, with a call for what was missed.
func (h hostLinks) watch(ctx context.Context, changed func()) error {
	for ctx.Err() == nil {
		updates, done := make(chan netlink.LinkUpdate), make(chan struct{})
		if err := netlink.LinkSubscribe(updates, done); err != nil {
			return fmt.Errorf("subscribing to network interface changes: %w", err)
		}
		changed()
		h.follow(ctx, updates, changed)
		close(done)
		for range updates { // the sender must not block on a channel nobody reads
		}
	}
	return nil
}

// follow forwards changes until the subscription or ctx ends. Carrier and
// counters of known links change all the time and concern nobody here.
func (h hostLinks) follow(ctx context.Context, updates <-chan netlink.LinkUpdate, changed func()) {
	known := map[int32]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case u, ok := <-updates:
			if !ok {
				klog.FromContext(ctx).Info("Lost the subscription to network interface changes; renewing it")
				return
			}
			name := u.Link.Attrs().Name
			if u.Header.Type == unix.RTM_NEWLINK && known[u.Index] == name {
				continue
			}
			known[u.Index] = name
			if u.Header.Type == unix.RTM_DELLINK {
				delete(known, u.Index)
			}
			changed()
		}
	}
}
