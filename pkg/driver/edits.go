package driver

import (
	"fmt"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// cdiName is the CDI name of one device of a pool in a claim. It is one
// of the claim's: a container that was given a single request of the claim gets
// the device files of that request only.
func cdiName(r checkpoint.Record) string {
	return fmt.Sprintf("%s.%d", r.Claim.UID, r.Index)
}

// hardwareEdits are the CDI devices for what a claim's records give to
// containers. ofPod are all records of the pod.
func hardwareEdits(claimUID string, ofPod []checkpoint.Record) ([]specs.Device, error) {
	var out []specs.Device
	for _, r := range ofPod {
		if r.Claim.UID != claimUID || r.Hardware == nil {
			continue
		}
		env, err := attachment.Environment(toldWith(r, ofPod))
		if err != nil {
			return nil, err
		}
		out = append(out, specs.Device{
			Name:           cdiName(r),
			ContainerEdits: specs.ContainerEdits{Env: env, DeviceNodes: deviceNodes(r.Hardware.Files)},
		})
	}
	return out, nil
}

// toldWith are the devices that a container with the device of one record is
// told of. A variable lists all devices of a pool, and where several CDI devices
// set it the last one counts: so each lists all those that a container may have
// with it. The claims of the pod's own spec are as a rule in all containers.
// What was asked for as an extended resource is one container's, and comes last:
// the kubelet adds it after the claims.
func toldWith(r checkpoint.Record, ofPod []checkpoint.Record) []attachment.Hardware {
	var out []attachment.Hardware
	for _, other := range ofPod {
		if other.Hardware != nil && (!other.Hardware.Extended || r.Hardware.Extended && other.Request == r.Request && other.Claim == r.Claim) {
			out = append(out, *other.Hardware)
		}
	}
	return out
}

// deviceNodes asks for files that are the host's: their numbers are looked up
// when a container is made.
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

// cdiDevices are the names by which the kubelet has a container get what a
// record brings: the device of a pool, and the gate. The kubelet shows a device's
// health by the first, and each name once for a container: the gate's is that of
// all devices of a claim.
func cdiDevices(r checkpoint.Record) []string {
	gate := gateDevice(r.Claim.UID)
	if r.Hardware != nil {
		return []string{gateDevice(cdiName(r)), gate}
	}
	return []string{gate}
}

// sortedByIndex are records in the order in which a pod's devices are told of.
func sortedByIndex(records []checkpoint.Record) []checkpoint.Record {
	out := slices.Clone(records)
	slices.SortStableFunc(out, func(a, b checkpoint.Record) int { return a.Index - b.Index })
	return out
}
