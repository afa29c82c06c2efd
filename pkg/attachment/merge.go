package attachment

import (
	"encoding/json"
	"fmt"
	"maps"
)

// mergeCNIArgs merges the pod's arguments into "args.cni" of every plugin of the chain. The pod's
// value of a key takes precedence (behaviour A2-19).
func mergeCNIArgs(conflist json.RawMessage, args map[string]json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		return conflist, nil
	}
	return editCNIArgs(conflist, func(cni object) { maps.Copy(cni, args) })
}

// WithoutArgs returns the attachment without the arguments that the selection requests: those of the network stay,
// except values that the selection has replaced.
func (a Attachment) WithoutArgs() (out Attachment, err error) {
	out = a
	out.Args = nil
	out.Conflist, err = editCNIArgs(a.Conflist, func(cni object) {
		for key := range a.Args {
			delete(cni, key)
		}
	})
	return out, err
}

// editCNIArgs applies an edit to "args.cni" of every plugin of a list.
func editCNIArgs(conflist json.RawMessage, edit func(cni object)) (json.RawMessage, error) {
	return editPlugins(conflist, func(plugin object) error {
		return editObject(plugin, "args", func(own object) error {
			return editObject(own, "cni", func(cni object) error {
				edit(cni)
				return nil
			})
		})
	})
}

// editPlugins applies an edit to every plugin of a list. Keys that the edit does not touch keep
// their values; those of pluginKeys get that spelling, so that there is no second one beside a key that the edit sets.
func editPlugins(conflist json.RawMessage, edit func(object) error) (json.RawMessage, error) {
	var list object
	if err := decodeJSON(conflist, &list); err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := decodeJSON(list["plugins"], &raw); err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	plugins := make([]object, len(raw))
	for i := range raw {
		var err error
		if plugins[i], err = spelled(raw[i], pluginKeys...); err == nil {
			err = edit(plugins[i])
		}
		if err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	var err error
	if list["plugins"], err = json.Marshal(plugins); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// editObject applies an edit to the object under a key. It creates the object if it is missing.
func editObject(parent object, key string, edit func(object) error) error {
	child := object{}
	if !isNull(parent[key]) {
		if err := json.Unmarshal(parent[key], &child); err != nil {
			return fmt.Errorf("%s: %s is not an object: correct the network's configuration", key, parent[key])
		}
	}
	if err := edit(child); err != nil {
		return fmt.Errorf("%s.%w", key, err)
	}
	raw, err := json.Marshal(child)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	parent[key] = raw
	return nil
}
