package controller

import (
	"encoding/json"
	"fmt"
	"reflect"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// action is what to do about an object.
type action string

const (
	leave  action = "leave"
	create action = "create"
	update action = "update"
	remove action = "delete"
)

// remark is what a NAD's owner should know about its class.
type remark struct {
	warning      bool
	reason, text string
}

// networkClass is the class that a NAD should have, nil for none.
func networkClass(nad *nadv1.NetworkAttachmentDefinition, pools bool) (*resourceapi.DeviceClass, *remark) {
	class, err := translate.ClassOf(nad, translate.Options{Pools: pools})
	if err != nil {
		return nil, &remark{true, "NoDeviceClass", fmt.Sprintf("there is no DeviceClass: %v", err)}
	}
	if class == nil {
		return nil, nil
	}
	own(class)
	ref := attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
	if plain := ref.Name + "." + ref.Namespace + classSuffix; class.Name != plain {
		return class, &remark{false, "DeviceClassNameShortened", fmt.Sprintf(
			"the DeviceClass is named %s, since %d characters are more than a name may have", class.Name, len(plain))}
	}
	return class, nil
}

const classSuffix = ".nad.nadra.dev"

func own(class *resourceapi.DeviceClass) {
	class.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
}

// decide says what makes a class what it should be; either may be nil. The
// object is what to write, or to delete. A class that is not ours is as good as
// the one that we would make: whoever made it has his reasons.
func decide(want, there *resourceapi.DeviceClass) (action, *resourceapi.DeviceClass) {
	switch {
	case there == nil && want == nil:
		return leave, nil
	case there == nil:
		return create, want
	case !owned.Managed(there) || !there.DeletionTimestamp.IsZero():
		return leave, nil
	case want == nil:
		return remove, there
	case sameSpec(there.Spec, want.Spec):
		return leave, nil
	}
	changed := there.DeepCopy()
	changed.Spec = want.Spec
	return update, changed
}

// sameSpec compares by value: the API server may write the keys of parameters in
// another order.
func sameSpec(a, b resourceapi.DeviceClassSpec) bool {
	return reflect.DeepEqual(value(a), value(b))
}

func value(spec resourceapi.DeviceClassSpec) any {
	text, err := json.Marshal(spec)
	var v any
	if err != nil || json.Unmarshal(text, &v) != nil {
		return err
	}
	return v
}
