package publish

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// HostLinks lists and watches the network interfaces of the host. The driver runs in the
// host's network namespace.
type HostLinks struct {
	sysRoot string
}

// NewHostLinks returns the host's interfaces. sysRoot is the mount point of sysfs in the
// host's network namespace.
func NewHostLinks(sysRoot string) HostLinks { return HostLinks{sysRoot} }

// List returns the interfaces by name.
func (h HostLinks) List() (map[string]offer.Link, error) {
	links, err := inventory.LinkList(nil)
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	out := make(map[string]offer.Link, len(links))
	for _, l := range links {
		attrs := l.Attrs()
		found := offer.Link{Name: attrs.Name, PCI: h.pciAttributes(attrs.Name)}
		out[attrs.Name] = found
		for _, alt := range attrs.AltNames {
			out[alt] = found
		}
	}
	return out, nil
}

// pciAttributes returns the attributes that align a network with other devices. It leaves
// out what sysfs does not have.
func (h HostLinks) pciAttributes(name string) offer.PCIAttributes {
	address := h.pciAddress(name)
	if address == "" {
		return nil
	}
	out := offer.PCIAttributes{}
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
func (h HostLinks) pciAddress(name string) string {
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

// Watch calls changed after interfaces come, go or are renamed, and gone with the name of each that goes, until
// ctx ends. It renews a lost subscription, and then calls changed for what it has missed.
func (h HostLinks) Watch(ctx context.Context, changed func(), gone func(name string)) error {
	for ctx.Err() == nil {
		updates, done := make(chan netlink.LinkUpdate), make(chan struct{})
		if err := netlink.LinkSubscribe(updates, done); err != nil {
			return fmt.Errorf("subscribing to network interface changes: %w", err)
		}
		changed()
		h.follow(ctx, updates, changed, gone)
		close(done)
		for range updates { // the sender must not block on a channel nobody reads
		}
	}
	return nil
}

// follow forwards changes until the subscription or ctx ends. It ignores the carrier and
// the counters of known links, which change all the time.
func (h HostLinks) follow(ctx context.Context, updates <-chan netlink.LinkUpdate, changed func(), gone func(name string)) {
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
				gone(name)
			}
			changed()
		}
	}
}
