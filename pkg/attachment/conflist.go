package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// conflistOf returns the configuration as a list. A single plugin becomes a
// list of one, as libcni.ConfListFromConf does it: name and cniVersion are
// lifted, which libcni puts back into the plugin's stdin, and the plugin keeps
// all it had. A missing cniVersion stays missing, so that the plugin sees the
// empty version that Multus would send it.
//
// With both "type" and "plugins" it is a single plugin, as for Multus.
// "capabilities" beside "plugins" say nothing: libcni reads those of a plugin.
func conflistOf(config []byte) (object, error) {
	if len(strings.TrimSpace(string(config))) == 0 {
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

// networkName is the configuration's name, or the object's where it has none
// (behaviour A1-8).
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
	if !cniName.MatchString(name) {
		return "", fmt.Errorf("name: %q is no name for a CNI network: use letters, digits, '_', '.' and '-', a letter or digit first", name)
	}
	return name, nil
}

func checkPlugins(raw json.RawMessage) error {
	if raw == nil {
		return errors.New(`has neither "type" nor "plugins": name a plugin`)
	}
	var plugins []json.RawMessage
	if err := decodeJSON(raw, &plugins); err != nil {
		return fmt.Errorf("plugins: %w", err)
	}
	if len(plugins) == 0 {
		return errors.New("plugins: is empty: name a plugin")
	}
	for i, plugin := range plugins {
		if err := checkPlugin(plugin); err != nil {
			return fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	return nil
}

func checkPlugin(raw json.RawMessage) error {
	var p types.PluginConf
	if err := decodeJSON(raw, &p); err != nil {
		return err
	}
	if p.Type == "" {
		return errors.New("type: is missing: name the plugin's binary")
	}
	// libcni refuses it too, but only when a pod is waiting.
	if strings.ContainsAny(p.Type, `/\`) {
		return fmt.Errorf("type: %q contains a path separator: give the binary's name; it is looked up in the plugin directories", p.Type)
	}
	return nil
}
