package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Decode parses the report of a kind in the output of nadra-node.
func Decode[T any](output []byte, kind string) (*T, error) {
	out := new(T)
	if err := decode(output, kind, map[string]func() any{kind: func() any { return out }}); err != nil {
		return nil, err
	}
	return out, nil
}

// DecodePods parses the reports about a node and its pods. It returns an error if a line is missing.
func DecodePods(output []byte) (*NodePods, error) {
	var out NodePods
	var end PodsReport
	err := decode(output, PodsKind, map[string]func() any{
		podKind:  func() any { out.Pods = append(out.Pods, Pod{}); return &out.Pods[len(out.Pods)-1] },
		PodsKind: func() any { return &end },
	})
	switch {
	case err != nil:
		return nil, err
	case end.Count != len(out.Pods):
		return nil, fmt.Errorf("reading the report of nadra-node: the log has %d of %d pods, because it was cut: raise the kubelet's containerLogMaxSize", len(out.Pods), end.Count)
	}
	out.VFs, out.Errors = end.VFs, end.Errors
	return &out, nil
}

// DecodeLast parses the last line of an output that is a JSON object with a key at its beginning: a log also has standard
// error. Without such a line it fails with the end of the output, which has the error of a program that failed.
func DecodeLast(output []byte, key string, report any) error {
	for _, line := range slices.Backward(bytes.Split(output, []byte("\n"))) {
		if bytes.HasPrefix(line, []byte(`{"`+key+`":`)) {
			return json.Unmarshal(line, report)
		}
	}
	text := bytes.TrimSpace(output)
	if len(text) == 0 {
		return errors.New("the pod has ended without a report: look at the node, which may have restarted")
	}
	return errors.New(string(text[max(0, len(text)-maxText):]))
}

// maxText limits an error from an output, in bytes.
const maxText = 4096

// decode parses the lines of an output, each into a document for its kind, until the line of kind last. A log also has
// standard error, so decode skips other lines.
func decode(output []byte, last string, documents map[string]func() any) error {
	for line := range bytes.Lines(output) {
		if !bytes.HasPrefix(line, []byte(`{"apiVersion"`)) {
			continue
		}
		var head struct{ APIVersion, Kind string }
		err := json.Unmarshal(line, &head)
		document := documents[head.Kind]
		if err == nil && (head.APIVersion != APIVersion || document == nil) {
			err = fmt.Errorf("apiVersion %.60q and kind %.60q are not %s %s: use an image of this version", head.APIVersion, head.Kind, APIVersion, last)
		}
		if err == nil {
			err = json.Unmarshal(line, document())
		}
		if err != nil {
			return fmt.Errorf("reading the report of nadra-node: %w", err)
		}
		if head.Kind == last {
			return nil
		}
	}
	if text := bytes.TrimSpace(output); len(text) > 0 {
		return fmt.Errorf("reading the report of nadra-node: no line of the output is %s %s: %.300q", APIVersion, last, text)
	}
	return errors.New("reading the report of nadra-node: the output is empty")
}
