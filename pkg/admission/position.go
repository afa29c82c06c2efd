package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// positionIn returns the position of a finding in the value of a networks annotation. The finding
// itself has the position in the API server's JSON of the pod, which its author has not seen.
// positionIn returns "" if the position is that of the value.
func positionIn(annotations map[string]string, f translate.Finding) string {
	for _, key := range []string{attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation} {
		at := f.Position.Offset
		if value := annotations[key]; at > 0 && at <= len(value) && strings.HasSuffix(f.Field, "["+key+"]") {
			before := value[:at]
			line := strings.Count(before, "\n")
			column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
			if line == 0 {
				return fmt.Sprintf("column %d", column)
			}
			return fmt.Sprintf("line %d, column %d", line+1, column)
		}
	}
	return ""
}
