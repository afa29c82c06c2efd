package translate

import (
	"fmt"
	"maps"
	"strconv"
)

// patch makes an edit in a tree: the meaning that the splices are held to.
func patch(root *any, e Edit) error {
	return patchAt(root, e.Path, e)
}

func patchAt(at *any, path Path, e Edit) error {
	if len(path) == 0 {
		*at = treeOf(e.Value)
		return nil
	}
	switch v := (*at).(type) {
	case map[string]any:
		return patchMapping(v, path, e)
	case []any:
		if path[0] == "-" && len(path) == 1 && e.Op == Add {
			*at = append(v, treeOf(e.Value))
			return nil
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(v) {
			return patchAt(&v[i], path[1:], e)
		}
	}
	return fmt.Errorf("editing %s: there is no such place", e.Path)
}

func patchMapping(m map[string]any, path Path, e Edit) error {
	child, found := m[path[0]]
	switch {
	case !found && (len(path) > 1 || e.Op != Add):
		return fmt.Errorf("editing %s: there is no such place", e.Path)
	case len(path) == 1 && e.Op == Remove:
		delete(m, path[0])
		return nil
	}
	if s, isString := e.Value.(string); len(path) == 1 && isString && isNumber(s) {
		// A number in quotes stays one, and one without stays one.
		if old, _ := child.(string); len(old) > 5 && old[:5] == "!!int" {
			m[path[0]] = "!!int " + s
			return nil
		}
	}
	if err := patchAt(&child, path[1:], e); err != nil {
		return err
	}
	m[path[0]] = child
	return nil
}

// treeOf is the value of an edit as tree has it.
func treeOf(v any) any {
	switch v := v.(type) {
	case fields:
		m := map[string]any{}
		for _, f := range v {
			m[f.key] = treeOf(f.value)
		}
		return maps.Clone(m)
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, treeOf(item))
		}
		return list
	}
	return fmt.Sprintf("!!str %v", v)
}
