package offer

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestClassSelectsWhatIsPublished checks that the class of a conversion selects devices by an attribute
// and a text that the driver publishes. The driver itself never links the conversion.
func TestClassSelectsWhatIsPublished(t *testing.T) {
	for _, name := range []string{"lan", strings.Repeat("long-", 20) + "name"} {
		d := arranged(defined(t, map[string]string{name: drivertest.RedConf}), nil, podsOfNode)[0][0]
		expression := translate.DeviceClass(attachment.NetworkRef{Namespace: "default", Name: name}, "").Spec.Selectors[0].CEL.Expression
		selected := 0
		for attribute, value := range d.attributes {
			if strings.HasSuffix(expression, `.`+string(attribute)+`.contains("`+*value.StringValue+`")`) {
				selected++
			}
		}
		if selected != 1 || len(d.attributes) != 1 {
			t.Errorf("attributes %v, selected by %s", d.attributes, expression)
		}
	}
}
