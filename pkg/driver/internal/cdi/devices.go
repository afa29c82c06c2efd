package cdi

import (
	"fmt"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// kind is the CDI kind of all devices of nadra. A device is named <claim UID>.<index>.
const kind = "net.nadra.dev/gate"

// DeviceIDs returns the CDI devices that the kubelet adds to a container for a record. It
// is one for each network, because the kubelet reports the network's health under the
// first, and lists each name once for a claim and container.
func DeviceIDs(r checkpoint.Record) []string { return []string{kind + "=" + deviceName(r)} }

// deviceName returns the name of a record's device. Each request of a claim has a name of
// its own, so that a container which names a single request gets only that request's
// device files.
func deviceName(r checkpoint.Record) string {
	return fmt.Sprintf("%s.%d", r.Claim.UID, r.Index)
}

// devicesOf returns the CDI devices of a claim. ofPod are all records of the claim's pod.
func devicesOf(claimUID string, ofPod []checkpoint.Record) ([]specs.Device, error) {
	ofPod = slices.SortedStableFunc(slices.Values(ofPod), func(a, b checkpoint.Record) int { return a.Index - b.Index })
	var out []specs.Device
	for _, r := range ofPod {
		if r.Claim.UID != claimUID {
			continue
		}
		edits, err := editsOf(r, ofPod)
		if err != nil {
			return nil, err
		}
		out = append(out, specs.Device{Name: deviceName(r), ContainerEdits: edits})
	}
	return out, nil
}

// editsOf returns what a record's device changes in a container. CDI rejects a device that
// changes nothing, so that of a network without hardware sets a variable.
func editsOf(r checkpoint.Record, ofPod []checkpoint.Record) (specs.ContainerEdits, error) {
	if r.Hardware == nil {
		return specs.ContainerEdits{Env: []string{"NADRA_CLAIM=" + r.Claim.UID}}, nil
	}
	env, err := attachment.Environment(visibleWith(r, ofPod))
	return specs.ContainerEdits{Env: env, DeviceNodes: deviceNodes(r.Hardware.Files)}, err
}

// visibleWith returns the devices that the environment of a container with r's device
// lists. An environment variable lists all devices of a pool, and if several CDI
// devices set it, the last one wins. So each lists every device that a container may
// have together with r's: those of the claims in the pod's spec, which all containers
// usually have. An extended resource belongs to one container, and the kubelet adds it
// after the claims, so it lists its own devices, too.
func visibleWith(r checkpoint.Record, ofPod []checkpoint.Record) []attachment.Hardware {
	var out []attachment.Hardware
	for _, other := range ofPod {
		if other.Hardware != nil && (!other.Hardware.Extended || r.Hardware.Extended && other.Request == r.Request && other.Claim == r.Claim) {
			out = append(out, *other.Hardware)
		}
	}
	return out
}

// deviceNodes returns the device files that a container gets. The runtime looks up
// their numbers on the host when it creates the container.
func deviceNodes(files []attachment.DeviceFile) []*specs.DeviceNode {
	var out []*specs.DeviceNode
	for _, f := range files {
		node := &specs.DeviceNode{Path: f.Path, Permissions: "rwm"}
		if f.ContainerPath != "" && f.ContainerPath != f.Path {
			node.Path, node.HostPath = f.ContainerPath, f.Path
		}
		out = append(out, node)
	}
	return out
}
