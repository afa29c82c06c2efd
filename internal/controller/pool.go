package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// poolClassName returns the name of a pool's class: sriov.intel.com.pool.nadra.dev for intel.com/sriov.
// The name has a hash if it would be invalid or ambiguous otherwise.
func poolClassName(pool string) string {
	domain, name, _ := strings.Cut(pool, "/")
	plain := name + "." + domain + attachment.PoolClassSuffix
	if !strings.Contains(name, ".") && len(validation.IsDNS1123Subdomain(plain)) == 0 {
		return plain
	}
	readable := attachment.Label(name)
	sum := sha256.Sum256([]byte(pool))
	return strings.TrimLeft(readable[:min(len(readable), 63)]+"-", "-") + hex.EncodeToString(sum[:])[:10] + attachment.PoolClassSuffix
}

// poolClass returns the class that serves a pool's extended resource, so that pods which request it get
// devices from nadra if the device plugin is gone. others has the classes of the cluster. It returns nil
// if a class of a user serves the resource.
func poolClass(pool string, others []resourceapi.DeviceClass) (*resourceapi.DeviceClass, *remark) {
	if err := checkPool(pool); err != nil {
		return nil, noClass(err)
	}
	for _, other := range others {
		if other.Spec.ExtendedResourceName != nil && *other.Spec.ExtendedResourceName == pool && !translate.Managed(&other) {
			return nil, nil
		}
	}
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: poolClassName(pool)},
		Spec: resourceapi.DeviceClassSpec{
			Selectors:            []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: translate.PoolDevices(pool)}}},
			ExtendedResourceName: &pool,
		},
	}
	own(class)
	return class, nil
}

// checkPool refuses names that are not names of an extended resource.
func checkPool(pool string) error {
	domain, _, qualified := strings.Cut(pool, "/")
	switch problems := validation.IsQualifiedName(pool); {
	case len(problems) > 0:
		return reason.Errorf(reason.PoolInvalid, "resourceName %q: %s", pool, problems[0])
	case !qualified:
		return reason.Errorf(reason.PoolInvalid, "resourceName %q has no domain", pool)
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(domain, "requests."):
		return reason.Errorf(reason.PoolInvalid, "resourceName %q has a domain of Kubernetes", pool)
	case len(pool) > resourceapi.DeviceAttributeMaxValueLength:
		return reason.Errorf(reason.PoolInvalid, "resourceName %q has %d characters, and a device's attribute takes %d", pool, len(pool), resourceapi.DeviceAttributeMaxValueLength)
	}
	return nil
}
