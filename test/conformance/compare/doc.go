// Package compare finds the differences of two attachments of the same pod, one by Multus and
// one by nadra, and checks whether docs/reference/compatibility.md lists them. It works on plain values
// and touches nothing itself.
package compare

import (
	"encoding/json"
	"slices"
	"strings"
)

// Side has the observations of one side.
type Side struct {
	// Error is the error with which the pod did not start; empty if it did.
	Error string
	// Stop is the error of detaching its networks; empty if there was none.
	Stop string
	// Calls are those of CNI plugins for the pod's additional networks, in order.
	Calls []Call
	// Added describes the pod's network namespace after ADD.
	Added State
	// Status is the pod's annotation k8s.v1.cni.cncf.io/network-status.
	Status string
	// Left describes the pod's network namespace and the node after DEL.
	Left State
}

// State is a tree of maps, lists and strings for readers.
type State map[string]any

// Call is one call of a CNI plugin.
type Call struct {
	Type  string            `json:"type"`
	Env   map[string]string `json:"env"`
	Stdin string            `json:"stdin"`
}

// Difference is a place in which the two sides differ. A missing value is Absent.
type Difference struct{ Path, Multus, Nadra string }

// Absent stands for a value that a side does not have.
const Absent = "(absent)"

// Sides returns all differences. known is the text of the case: a MAC address that is in it
// was asked for, any other is random. If only one side starts the pod, or can detach its
// networks, that is the only difference.
func Sides(multus, nadra Side, known string) []Difference {
	if (multus.Error == "") != (nadra.Error == "") {
		return []Difference{{"outcome", outcome(multus.Error), outcome(nadra.Error)}}
	}
	multus, nadra = normalised(multus, known), normalised(nadra, known)
	if multus.Error != "" {
		return failures(multus, nadra)
	}
	out := trees("added", plain(multus.Added), plain(nadra.Added))
	out = append(out, status(multus.Status, nadra.Status)...)
	if d := stops(multus, nadra); d != nil {
		return append(append(out, calls(only("ADD", multus.Calls), only("ADD", nadra.Calls))...), d...)
	}
	out = append(out, calls(multus.Calls, nadra.Calls)...)
	return append(out, trees("left", plain(multus.Left), plain(nadra.Left))...)
}

// failures compares two sides that both do not start the pod: what they have left and, if
// both called plugins, those calls.
func failures(multus, nadra Side) []Difference {
	out := stops(multus, nadra)
	if out == nil {
		out = trees("left", plain(multus.Left), plain(nadra.Left))
	}
	prefix := "failed: "
	if multus.Stop != "" && nadra.Stop != "" {
		prefix = "failed twice: "
	}
	switch {
	case len(nadra.Calls) > 0:
		out = append(out, calls(multus.Calls, nadra.Calls)...)
	case len(multus.Calls) > 0:
		out = append(out, Difference{"plugins that ran", strings.Join(titles(multus.Calls), ", "), "none"})
	}
	for i := range out {
		out[i].Path = prefix + out[i].Path
	}
	return out
}

func stops(multus, nadra Side) []Difference {
	if (multus.Stop == "") == (nadra.Stop == "") {
		return nil
	}
	return []Difference{{"end", outcome(multus.Stop), outcome(nadra.Stop)}}
}

func only(command string, list []Call) []Call {
	return slices.DeleteFunc(slices.Clone(list), func(c Call) bool { return c.Env["CNI_COMMAND"] != command })
}

func outcome(failure string) string {
	if failure == "" {
		return "success"
	}
	return "error: " + failure
}

// status compares the annotation's values and, if they are equal, its bytes.
func status(multus, nadra string) []Difference {
	if out := trees("status", parsed(multus), parsed(nadra)); len(out) > 0 || multus == nadra {
		return out
	}
	return []Difference{{"status.bytes", multus, nadra}}
}

// plain converts typed values to the tree of their JSON form.
func plain(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return parsed(string(text))
}
