// Package truncate shortens texts to what the API server accepts.
package truncate

import "strings"

const ellipsis = "…"

// Text returns s if it has at most limit bytes. Otherwise it returns the beginning of
// s, as valid UTF-8, and an ellipsis.
func Text(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}
