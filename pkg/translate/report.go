package translate

import (
	"fmt"
	"strings"
)

// reporter collects the findings of one object.
type reporter struct {
	doc      *document
	object   object
	findings []Finding
}

func (r *reporter) add(code Code, path Path, at Position, format string, args ...any) {
	r.findings = append(r.findings, Finding{
		Code: code, Severity: severityOf(code), Object: r.object.ref,
		Field: path[min(len(r.object.path), len(path)):].String(), Position: at, Message: fmt.Sprintf(format, args...),
	})
}

// blocker is the code of the first finding that blocks.
func (r *reporter) blocker() (Code, bool) {
	for _, f := range r.findings {
		if f.Severity == Blocker {
			return f.Code, true
		}
	}
	return "", false
}

// has reports whether there is a finding of a code.
func (r *reporter) has(code Code) bool {
	for _, f := range r.findings {
		if f.Code == code {
			return true
		}
	}
	return false
}

// bare is an error's text after a prefix, where a finding says that anyway.
func bare(err error, prefix string) string {
	if _, rest, found := strings.Cut(err.Error(), prefix); found {
		return rest
	}
	return err.Error()
}
