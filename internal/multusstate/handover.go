package multusstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// HandOver writes what Multus would have of a sandbox that nadra has attached, and makes it one that
// nadra has taken: Return gives it to Multus, as if Multus had attached it. s has the sandbox's
// attachments with their results. It may be repeated.
//
// It does nothing, and reports false, where Multus has never been, and if the container runtime has
// no entry of the sandbox's eth0: Multus could not delete the default network.
func (d Dir) HandOver(s Sandbox) (written bool, err error) {
	if _, err := os.Stat(d.Multus); err != nil {
		return false, nil //nolint:nilerr // Multus has never been here
	}
	eth0, err := cniexec.RuntimeEntry(d.Runtime, s.ID)
	if err != nil || eth0 == nil {
		return false, err
	}
	if err := d.writeHandedOver(s, *eth0); err != nil {
		return false, reason.Errorf(reason.StateNotWritten, "writing what Multus needs to delete the networks of pod %s: %w", s.Pod, err)
	}
	return true, nil
}

// writeHandedOver writes Multus' file of a sandbox where nadra keeps those that it has taken, and then
// libcni's entries. The file comes first: it leads to the entries when the sandbox ends.
func (d Dir) writeHandedOver(s Sandbox, eth0 cniexec.CacheEntry) error {
	delegates := []delegate{{Name: eth0.Network, Conf: eth0.Config, ConfList: eth0.Config, Bytes: eth0.Config}}
	sandbox := attachment.Sandbox{ID: s.ID, NetNS: s.NetNS, Pod: s.Pod}
	entries := map[string]cniexec.CacheEntry{}
	for _, a := range s.Attachments {
		delegates = append(delegates, delegateOf(a.Attachment))
		e := cniexec.EntryOf(sandbox, a.Attachment, a.Result)
		entries[e.Name()] = e
	}
	if err := writeJSON(filepath.Join(d.taken(), s.ID), delegates); err != nil {
		return err
	}
	for name, e := range entries {
		if err := writeJSON(filepath.Join(d.results(), name), e); err != nil {
			return err
		}
	}
	if err := atomicfile.MkdirAll(d.results(), 0o700); err != nil {
		return err
	}
	err := os.Link(eth0.File, filepath.Join(d.results(), filepath.Base(eth0.File)))
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, atomicfile.SyncDir(d.results()))
}

// delegateOf returns what Multus' file has of an attachment: the reverse of capabilityArgs and ref.
func delegateOf(a attachment.Attachment) delegate {
	out := delegate{
		Conf: a.Conflist, ConfList: a.Conflist, Bytes: a.Conflist,
		Name: a.Network.String(), IfnameRequest: a.Interface, GatewayRequest: a.DefaultRoute, ResourceName: a.ResourceName,
	}
	for capability, field := range map[string]any{
		"ips": &out.IPRequest, "mac": &out.MacRequest, "infinibandGUID": &out.InfinibandGUIDRequest, "deviceID": &out.DeviceID,
	} {
		_ = json.Unmarshal(a.CapabilityArgs[capability], field) // without it, the field stays empty
	}
	return out
}

// writeJSON writes a file, with its directory if that is missing.
func writeJSON(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}
