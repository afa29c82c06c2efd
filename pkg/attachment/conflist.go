package attachment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// conflistOf returns the configuration as a list. It turns a single plugin into a list of one, as
// libcni.ConfListFromConf does: it copies name and cniVersion to the list, from where libcni puts
// them back into the plugin's stdin, and keeps the plugin as it is. A missing cniVersion stays
// missing, so that the plugin gets the empty version that Multus would send.
//
// A configuration with both "type" and "plugins" is a single plugin, as for Multus.
// "capabilities" beside "plugins" have no effect: libcni reads those of a plugin.
func conflistOf(config []byte) (object, error) {
	if len(bytes.TrimSpace(config)) == 0 {
		return nil, errors.New("has only white space: write a CNI configuration, or leave it empty to use a file on the node")
	}
	var raw object
	if err := decodeJSON(config, &raw); err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, errors.New("is null: write a CNI configuration")
	}
	var single struct {
		Type       string `json:"type"`
		CNIVersion string `json:"cniVersion"`
	}
	if err := decodeJSON(config, &single); err != nil {
		return nil, err
	}
	if single.Type == "" {
		return raw, nil
	}
	list := object{"name": raw["name"], "plugins": mustJSON([]json.RawMessage{config})}
	if single.CNIVersion != "" {
		list["cniVersion"] = mustJSON(single.CNIVersion)
	}
	return list, nil
}

// cniName is the CNI specification's rule for network names.
var cniName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`)

// networkName returns the configuration's name, or the object's if it has none (behaviour A1-8).
func networkName(raw json.RawMessage, objectName string) (string, error) {
	name := ""
	if len(raw) > 0 {
		if err := decodeJSON(raw, &name); err != nil {
			return "", fmt.Errorf("name: %w", err)
		}
	}
	if name == "" {
		name = objectName
	}
	if err := v1alpha1.CheckSize("name", len(name), v1alpha1.MaxNetworkName, "bytes", "choose a shorter name for the CNI network"); err != nil {
		return "", err
	}
	if !cniName.MatchString(name) {
		return "", fmt.Errorf("name: %q is not a valid name of a CNI network: use letters, digits, '_', '.' and '-', with a letter or digit first", name)
	}
	return name, nil
}

// checkPlugins checks the list of plugins.
func checkPlugins(raw json.RawMessage) error {
	if raw == nil {
		return errors.New(`has neither "type" nor "plugins": name a plugin`)
	}
	var plugins []json.RawMessage
	if err := decodeJSON(raw, &plugins); err != nil {
		return fmt.Errorf("plugins: %w", err)
	}
	if len(plugins) == 0 {
		return errors.New("plugins is empty: name a plugin")
	}
	if err := v1alpha1.CheckSize("plugins", len(plugins), v1alpha1.MaxPlugins, "entries", "shorten the chain"); err != nil {
		return err
	}
	for i, plugin := range plugins {
		if err := checkPlugin(plugin); err != nil {
			return fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	return nil
}

// checkPlugin checks the keys and the type of a plugin, and those of its IPAM plugin.
func checkPlugin(raw json.RawMessage) error {
	var p types.PluginConf
	if err := decodeJSON(raw, &p); err != nil {
		return err
	}
	keys, err := spelled(raw, "ipam")
	if err != nil {
		return err
	}
	if _, err := spelled(keys["ipam"]); err != nil {
		return fmt.Errorf("ipam: %w", err)
	}
	if p.Type == "" {
		return errors.New("type is missing: name the plugin's binary")
	}
	for _, name := range []string{p.Type, p.IPAM.Type} {
		if err := v1alpha1.CheckSize("type", len(name), v1alpha1.MaxProgramName, "bytes", "write the name of the binary"); err != nil {
			return err
		}
	}
	// libcni refuses it, too, but only when a pod waits.
	if strings.ContainsAny(p.Type, `/\`) {
		return fmt.Errorf("type: %q contains a path separator: write the name of the binary, which must be in a plugin directory", p.Type)
	}
	return nil
}
