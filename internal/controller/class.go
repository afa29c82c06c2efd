package controller

import (
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// action is what to do with an object.
type action string

const (
	leave  action = "leave"
	create action = "create"
	update action = "update"
	remove action = "delete"
)

// remark is an event about the class of a NAD.
type remark struct {
	warning      bool
	reason, text string
}

// noClass returns the event about a missing class. Its message begins with the code of the error.
func noClass(err error) *remark {
	return &remark{true, reason.EventNoDeviceClass, reason.Of(err).Text("no DeviceClass is created: " + reason.Message(err))}
}

// networkClass returns the class that a NAD should have, or nil. sameID are the NADs with the same ID, the NAD
// among them: the later ones get classes for long IDs.
func networkClass(nad *nadv1.NetworkAttachmentDefinition, sameID []*nadv1.NetworkAttachmentDefinition, pools bool) (*resourceapi.DeviceClass, *remark) {
	ref := attachment.RefOf(nad)
	id := attachment.NetworkIDOf(ref)
	first, later := attachment.LaterOfEqualID(sameID)[ref]
	if later {
		id = attachment.LongNetworkIDOf(ref)
	}
	class, err := translate.ClassOf(nad, id, translate.Options{Pools: pools})
	if err != nil {
		return nil, noClass(err)
	}
	if class == nil {
		return nil, nil
	}
	own(class)
	if later {
		return class, &remark{true, reason.EventNetworkIdentifierTaken, fmt.Sprintf(
			"NetworkAttachmentDefinition %s is earlier and has the ID %s, too: nodes list this one by %s", first, attachment.NetworkIDOf(ref), id)}
	}
	if plain := ref.Name + "." + ref.Namespace + classSuffix; class.Name != plain {
		return class, &remark{false, reason.EventDeviceClassNameShortened, fmt.Sprintf(
			"the DeviceClass is named %s, because %d characters exceed the length of a name", class.Name, len(plain))}
	}
	return class, nil
}

const classSuffix = ".nad.nadra.dev"

// own marks a class as nadra's.
func own(class *resourceapi.DeviceClass) {
	class.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
}

// decide returns the action that turns an existing class into the wanted one, and the object to write or
// delete. Either class may be nil. It leaves classes that users created.
func decide(want, existing *resourceapi.DeviceClass) (action, *resourceapi.DeviceClass) {
	switch {
	case existing == nil && want == nil:
		return leave, nil
	case existing == nil:
		return create, want
	case !translate.Managed(existing) || !existing.DeletionTimestamp.IsZero():
		return leave, nil
	case want == nil:
		return remove, existing
	case equality.Semantic.DeepEqual(existing.Spec, want.Spec): // the order of keys in parameters counts, too
		return leave, nil
	}
	changed := existing.DeepCopy()
	changed.Spec = want.Spec
	return update, changed
}
