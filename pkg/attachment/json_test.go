package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWhereAndWhy(t *testing.T) {
	for _, tc := range []struct{ text, at, hint string }{
		{"{\n  \"é\": 1,\n}", "3:1", "remove the comma"},
		{`{"é" 1}`, "1:6", "a colon missing"},
		{`{"a": 1 "b": 2}`, "1:9", "a comma or bracket missing"},
		{`[1 2]`, "1:4", "a comma or bracket missing"},
		{`[{"a": 1, {}]`, "1:11", "a closing bracket missing"},
		{"{\"a\": 1", "1:8", "a closing bracket or quote missing"},
		{"", "1:1", "a closing bracket or quote missing"},
		{"{} # c", "1:4", "no comments"},
		{"{ // c\n}", "1:3", "no comments"},
		{`{'a': 1}`, "1:2", "double quotes"},
		{`foo`, "1:2", ""},
	} {
		err := json.Unmarshal([]byte(tc.text), new(any))
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		at := offender([]byte(tc.text), syntax)
		line, column := position([]byte(tc.text), at)
		if got := fmt.Sprintf("%d:%d", line, column); got != tc.at {
			t.Errorf("%s: at %s, want %s", tc.text, got, tc.at)
		}
		got := hint([]byte(tc.text), at, syntax)
		if !strings.Contains(got, tc.hint) || tc.hint == "" && got != "" {
			t.Errorf("%s: hint %q, want %q", tc.text, got, tc.hint)
		}
	}
}
