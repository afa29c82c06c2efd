package translate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/internal/yamledit"
)

// reporter collects the findings of one object.
type reporter struct {
	doc      *document
	object   object
	findings []Finding
}

// maxMessage limits the bytes of a finding's message, which may repeat what the manifest has.
const maxMessage = 1 << 10

// add adds a finding about the value at a path.
func (r *reporter) add(code Code, path Path, at Position, format string, args ...any) {
	r.findings = append(r.findings, Finding{
		Code: code, Severity: severityOf(code), Object: r.object.ref,
		Field: path[min(len(r.object.path), len(path)):].String(), Position: at, Message: words.Short(fmt.Sprintf(format, args...), maxMessage),
	})
}

// addAt adds a finding about a value.
func (r *reporter) addAt(code Code, at spot, format string, args ...any) {
	r.add(code, at.path, r.doc.at(at.node), format, args...)
}

// place returns the position of the value at a path, or of its nearest parent that exists. A
// mapping or list begins with its key.
func (r *reporter) place(path Path) Position {
	n, at := r.object.node, r.object.node
	for _, s := range path[len(r.object.path):] {
		parent := yamledit.Resolved(n)
		if n = yamledit.Child(parent, s); n == nil {
			break
		}
		if at = n; n.Kind != yaml.ScalarNode && parent.Kind == yaml.MappingNode {
			at = keyNode(parent, s)
		}
	}
	return r.doc.at(at)
}

// blocks reports whether there is a finding that blocks.
func (r *reporter) blocks() bool {
	return slices.ContainsFunc(r.findings, func(f Finding) bool { return f.Severity == Blocker })
}

// has reports whether there is a finding with a code.
func (r *reporter) has(code Code) bool {
	return slices.ContainsFunc(r.findings, func(f Finding) bool { return f.Code == code })
}

// bare returns the text of an error after a prefix that the finding has, too.
func bare(err error, prefix string) string {
	if _, rest, found := strings.Cut(err.Error(), prefix); found {
		return rest
	}
	return err.Error()
}
