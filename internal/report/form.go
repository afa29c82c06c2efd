package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// form is a format of a kind of report.
type form[T any] struct {
	name  string
	write func(io.Writer, T) error
}

// namesOf returns the names of formats.
func namesOf[T any](forms []form[T]) []string {
	names := make([]string, 0, len(forms))
	for _, f := range forms {
		names = append(names, f.name)
	}
	return names
}

// writeForm writes a report in the named format. what names the report in errors.
func writeForm[T any](w io.Writer, what string, forms []form[T], name string, r T) error {
	for _, f := range forms {
		if f.name != name {
			continue
		}
		b := bufio.NewWriter(w)
		err := f.write(b, r)
		if err == nil {
			err = b.Flush()
		}
		if err != nil {
			return fmt.Errorf("writing %s as %s: %w", what, name, err)
		}
		return nil
	}
	return fmt.Errorf("%q is not a format of %s: use one of %s", name, what, strings.Join(namesOf(forms), ", "))
}
