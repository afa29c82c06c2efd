package compare

import (
	"fmt"
	"slices"
	"strings"
)

// calls compares which plugins were called, in which order and with what.
func calls(multus, nadra []Call) []Difference {
	m, n := titles(multus), titles(nadra)
	var out []Difference
	for i, title := range m {
		j := slices.Index(n, title)
		if j < 0 {
			out = append(out, Difference{title, "called", "not called"})
			continue
		}
		out = append(out, trees(title, tree(multus[i]), tree(nadra[j]))...)
		out = append(out, argsOrder(title, multus[i], nadra[j])...)
	}
	for _, title := range n {
		if !slices.Contains(m, title) {
			out = append(out, Difference{title, "not called", "called"})
		}
	}
	if order := inOther(m, n); !slices.Equal(order, inOther(n, m)) {
		out = append(out, Difference{"order of calls", strings.Join(order, ", "), strings.Join(inOther(n, m), ", ")})
	}
	return out
}

// titles returns names of calls: "ADD net1 tuning". A repeated call has a number.
func titles(list []Call) []string {
	out := make([]string, len(list))
	for i, c := range list {
		base := c.Env["CNI_COMMAND"] + " " + c.Env["CNI_IFNAME"] + " " + c.Type
		out[i] = base
		for again := 2; slices.Contains(out[:i], out[i]); again++ {
			out[i] = fmt.Sprintf("%s again %d", base, again)
		}
	}
	return out
}

// inOther returns the elements of list that other has, too.
func inOther(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(other, s) })
}

// tree returns a call in the form that is compared.
func tree(c Call) any {
	env, args := map[string]any{}, map[string]any{}
	for key, value := range c.Env {
		env[key] = value
	}
	for _, pair := range pairs(c.Env["CNI_ARGS"]) {
		args[pair[0]] = pair[1]
	}
	env["CNI_ARGS"] = args
	env["CNI_PATH"] = strings.Join(distinct(strings.Split(c.Env["CNI_PATH"], ":")), ":")
	return map[string]any{"env": env, "stdin": parsed(c.Stdin)}
}

func argsOrder(title string, multus, nadra Call) []Difference {
	m, n := argKeys(multus), argKeys(nadra)
	if m, n := inOther(m, n), inOther(n, m); !slices.Equal(m, n) {
		return []Difference{{title + ".env.CNI_ARGS order", strings.Join(m, ";"), strings.Join(n, ";")}}
	}
	return nil
}

func argKeys(c Call) []string {
	var keys []string
	for _, pair := range pairs(c.Env["CNI_ARGS"]) {
		keys = append(keys, pair[0])
	}
	return keys
}
