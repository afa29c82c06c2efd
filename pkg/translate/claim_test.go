package translate

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

func selections(t *testing.T, annotation string) []attachment.Selection {
	t.Helper()
	s, err := attachment.ParseSelections(annotation, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTemplatesShareWhatIsEqual(t *testing.T) {
	name := func(annotation string) string {
		t.Helper()
		templates, err := templatesFor(selections(t, annotation), nil, resourceapi.DeviceRequestsMaxSize, "shop")
		if err != nil || len(templates) != 1 {
			t.Fatal(templates, err)
		}
		return templates[0].Name
	}
	for _, equal := range []string{"lan, shop/lan@net2", `[{"name": "lan"}, {"name": "lan", "interface": "net2", "gateway": "x"}]`} {
		if got, want := name(equal), name("lan,lan@net2"); got != want {
			t.Errorf("%s gives %s, not %s", equal, got, want)
		}
	}
	for _, other := range []string{"lan", "lan,lan", "lan@net3,lan", "other/lan,lan@net2", `[{"name": "lan", "mac": "02:00:00:00:00:01"}, {"name": "lan", "interface": "net2"}]`} {
		if name(other) == name("lan,lan@net2") {
			t.Errorf("%s gives the same name", other)
		}
	}
}

func TestTemplateNamesAreNames(t *testing.T) {
	for _, network := range []string{"a", "with.dots", strings.Repeat("long", 50), strings.Repeat("x", 45) + ".y"} {
		s := []attachment.Selection{{Network: attachment.NetworkRef{Namespace: "shop", Name: network}}}
		templates, err := templatesFor(s, nil, resourceapi.DeviceRequestsMaxSize, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if name := templates[0].Name; len(validation.IsDNS1123Label(name)) > 0 || !MadeTemplate(name) {
			t.Errorf("%s is not a name of a made template", name)
		}
	}
}

func TestManyNetworks(t *testing.T) {
	var names []string
	for i := range v1alpha1.MaxNetworks {
		names = append(names, fmt.Sprintf("lan%d", i))
	}
	templates, err := templatesFor(selections(t, strings.Join(names, ",")), nil, resourceapi.DeviceRequestsMaxSize, "shop")
	if err != nil || len(templates) != v1alpha1.MaxNetworks/resourceapi.DeviceRequestsMaxSize {
		t.Fatal(templates, err)
	}
	i := 0
	for _, template := range templates {
		for _, request := range template.Spec.Spec.Devices.Requests {
			i++
			if want := fmt.Sprintf("net%d", i); request.Name != want {
				t.Errorf("request %d is %s", i, request.Name)
			}
		}
	}
}

// TestSameInputSameOutput checks that results do not depend on the order in which processors convert
// files.
func TestSameInputSameOutput(t *testing.T) {
	in := Input{Files: many(200, 20)}
	first := Convert(in)
	for range 3 {
		again := Convert(in)
		if fmt.Sprint(first.Findings, first.Workloads) != fmt.Sprint(again.Findings, again.Workloads) {
			t.Fatal("the second result differs")
		}
		for i := range first.Created {
			if string(first.Created[i].YAML()) != string(again.Created[i].YAML()) {
				t.Fatalf("object %d differs", i)
			}
		}
	}
}
