package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// runtimePatience is how long the runtime may be out of reach before pods are
// told: it is restarted now and then, and every pod's status would be written
// twice.
const runtimePatience = 30 * time.Second

// healthFacts are what the health of devices is decided by (KEP-4680): what the
// driver knows already.
type healthFacts struct {
	// network is a NAD as it was last looked at; false where there is none.
	network func(attachment.NetworkRef) (candidate, bool)
	// status is the latest answer of a conflist's plugins to STATUS; nil where
	// they are well or not asked.
	status func(conflist json.RawMessage) error
	// hardware is what stands behind a device; false where that was never seen.
	hardware func(pool, device string) (hardwareDevice, bool)
	// check is what the latest CHECK of an attachment has found.
	check func(checkpoint.Record) error
	// runtime says that the runtime is out of reach, and since when; empty
	// where it is not.
	runtime string
}

// healthOf is the health of the devices that claims have, sorted, each device
// once. The kubelet asks for no others.
func healthOf(records []checkpoint.Record, f healthFacts) []kubeletplugin.DeviceHealth {
	var out []kubeletplugin.DeviceHealth
	seen := map[deviceKey]bool{}
	for _, r := range records {
		key := deviceKey{r.Pool, r.Device}
		if seen[key] {
			continue
		}
		seen[key] = true
		health, message := f.of(r)
		out = append(out, kubeletplugin.DeviceHealth{
			PoolName: r.Pool, DeviceName: r.Device, Health: health, Message: truncate.Text(message, maxHealthMessage),
		})
	}
	slices.SortFunc(out, func(a, b kubeletplugin.DeviceHealth) int {
		return cmp.Or(cmp.Compare(a.PoolName, b.PoolName), cmp.Compare(a.DeviceName, b.DeviceName))
	})
	return out
}

// maxHealthMessage is the API's limit for a message, in bytes.
const maxHealthMessage = 1024

// of is the health of one device: unhealthy where anything says so, and else
// unknown where anything is.
func (f *healthFacts) of(r checkpoint.Record) (kubeletplugin.HealthStatus, string) {
	unknown := ""
	for _, look := range []func(checkpoint.Record) (ill, unknown string){f.ofHardware, f.ofNetwork, f.ofAttachment} {
		ill, not := look(r)
		if ill != "" {
			return kubeletplugin.HealthStatusUnhealthy, ill
		}
		unknown = cmp.Or(unknown, not)
	}
	switch {
	case f.runtime != "":
		return kubeletplugin.HealthStatusUnhealthy, f.runtime
	case unknown != "":
		return kubeletplugin.HealthStatusUnknown, unknown
	}
	return kubeletplugin.HealthStatusHealthy, ""
}

// ofHardware is about the function that a device is. A shared device has
// several, and is well while it is there.
func (f *healthFacts) ofHardware(r checkpoint.Record) (ill, unknown string) {
	if r.Hardware == nil {
		return "", ""
	}
	d, known := f.hardware(r.Pool, r.Device)
	switch {
	case !known:
		return "", "it was not seen since the driver was started"
	case d.Gone:
		return "its function is not on the node any more, or no resource pool has it", ""
	case !d.shared():
		return linkDown(d.function()), ""
	}
	return "", ""
}

// ofNetwork is about whether the network could be attached now. Of a NAD that
// was deleted nobody knows that any more.
func (f *healthFacts) ofNetwork(r checkpoint.Record) (ill, unknown string) {
	if r.DeviceOnly {
		return "", ""
	}
	ref := r.Attachment.Network
	c, there := f.network(ref)
	if !there {
		return "", fmt.Sprintf("NetworkAttachmentDefinition %s was deleted; the pod keeps the network", ref)
	}
	if c.unusable != nil {
		return fmt.Sprintf("network %s cannot be attached on this node: %v", ref, c.unusable), ""
	}
	if err := f.status(c.network.Conflist); err != nil {
		return fmt.Sprintf("network %s: a plugin is not well by its answer to STATUS: %s", ref, cniMessage(err)), ""
	}
	return "", ""
}

// ofAttachment is about what CHECK has found. The kubelet knows a device by its
// name only: what one claim's attachment lacks says nothing of a device that
// others share.
func (f *healthFacts) ofAttachment(r checkpoint.Record) (ill, unknown string) {
	if r.DeviceOnly || r.ShareID != "" {
		return "", ""
	}
	if err := f.check(r); err != nil {
		return fmt.Sprintf("CHECK of network %s (%s) fails: %s", r.Attachment.Network, r.Attachment.Interface, cniMessage(err)), ""
	}
	return "", ""
}

// runtimeAway says that the runtime is out of reach for long; empty where not.
func runtimeAway(up bool, since, begun, now time.Time) string {
	if since.Before(begun) {
		since = begun
	}
	if up || now.Sub(since) < runtimePatience {
		return ""
	}
	return "the container runtime's NRI is not connected since " + at(since) + ": no container of the pod can be started until it is"
}
