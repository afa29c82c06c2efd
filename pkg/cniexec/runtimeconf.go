package cniexec

import (
	"encoding/json"

	"github.com/containernetworking/cni/libcni"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// runtimeConf returns what libcni needs besides the conflist.
func (r *Runner) runtimeConf(s attachment.Sandbox, a attachment.Attachment) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID:    s.ID,
		NetNS:          s.NetNS,
		IfName:         a.Interface,
		Args:           cniArgs(s, a),
		CapabilityArgs: withInfo(capabilityArgs(a.CapabilityArgs), r.infoPath(s, a)),
	}
}

// cniArgs returns CNI_ARGS with the keys, order and values that Multus sends (behaviour B10).
func cniArgs(s attachment.Sandbox, a attachment.Attachment) [][2]string {
	return append([][2]string{
		{"IgnoreUnknown", "true"},
		{"K8S_POD_NAMESPACE", s.Pod.Namespace},
		{"K8S_POD_NAME", s.Pod.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", s.ID},
		{"K8S_POD_UID", s.Pod.UID},
	}, a.CNIArgs...)
}

// withInfo adds the path of the device information file, which every plugin gets that
// declares the capability (device information specification). Multus passes it only if it
// knows a device (behaviour A5-63).
func withInfo(args map[string]any, path string) map[string]any {
	if args == nil {
		args = map[string]any{}
	}
	args[infoCapability] = path
	return args
}

// capabilityArgs converts values to libcni's form. It returns nil if there are none.
func capabilityArgs(values map[string]json.RawMessage) map[string]any {
	if len(values) == 0 {
		return nil
	}
	args := make(map[string]any, len(values))
	for capability, value := range values {
		args[capability] = value
	}
	return args
}
