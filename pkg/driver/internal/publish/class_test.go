package publish

import (
	"strconv"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// TestClassSelectsWhatIsPublished checks that the class of a conversion selects by the
// attributes that the driver publishes. The driver itself never links the conversion.
func TestClassSelectsWhatIsPublished(t *testing.T) {
	for _, name := range []string{"lan", strings.Repeat("long-", 20) + "name"} {
		ref := attachment.NetworkRef{Namespace: "shop", Name: name}
		published := attributes(attachment.Network{Ref: ref}, nil)
		expression := translate.DeviceClass(ref, "").Spec.Selectors[0].CEL.Expression
		selected := 0
		for _, attribute := range []string{attrNamespace, attrName, attrHash} {
			_, rest, found := strings.Cut(expression, "."+attribute+" == ")
			if !found {
				continue
			}
			selected++
			literal, _, _ := strings.Cut(rest, " ")
			value, err := strconv.Unquote(literal)
			if got := *published[resourceapi.QualifiedName(attribute)].StringValue; err != nil || got != value {
				t.Errorf("the class of %s has %s == %s, the driver publishes %q", ref, attribute, literal, got)
			}
		}
		if selected != 2 {
			t.Errorf("the class of %s selects by %d attributes: %s", ref, selected, expression)
		}
	}
}
