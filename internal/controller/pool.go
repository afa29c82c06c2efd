package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const poolSuffix = ".pool.nadra.dev"

// poolClassName is sriov.intel.com.pool.nadra.dev for intel.com/sriov. Where
// that is no name, or one that another pool may have, a hash is in it.
func poolClassName(pool string) string {
	domain, name, _ := strings.Cut(pool, "/")
	plain := name + "." + domain + poolSuffix
	if !strings.Contains(name, ".") && len(validation.IsDNS1123Subdomain(plain)) == 0 {
		return plain
	}
	readable := strings.Trim(strings.Map(nameRune, strings.ToLower(name)), "-")
	sum := sha256.Sum256([]byte(pool))
	return strings.TrimLeft(readable[:min(len(readable), 63)]+"-", "-") + hex.EncodeToString(sum[:])[:10] + poolSuffix
}

func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// poolClass is the class that serves a pool's extended resource, so that pods
// which ask for it the old way get devices from nadra where the device plugin is
// gone. Others are the classes of the cluster: one made by hand that serves the
// resource is enough.
func poolClass(pool string, others []resourceapi.DeviceClass) (*resourceapi.DeviceClass, *remark) {
	if err := checkPool(pool); err != nil {
		return nil, &remark{true, "NoDeviceClass", fmt.Sprintf("there is no DeviceClass for the pool: %v", err)}
	}
	for _, other := range others {
		if other.Spec.ExtendedResourceName != nil && *other.Spec.ExtendedResourceName == pool && !owned.Managed(&other) {
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

// checkPool refuses names that are no extended resource.
func checkPool(pool string) error {
	domain, _, qualified := strings.Cut(pool, "/")
	switch problems := validation.IsQualifiedName(pool); {
	case len(problems) > 0:
		return fmt.Errorf("resourceName %q: %s", pool, problems[0])
	case !qualified:
		return fmt.Errorf("resourceName %q: it has no domain", pool)
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(domain, "requests."):
		return fmt.Errorf("resourceName %q: the domain is Kubernetes' own", pool)
	case len(pool) > resourceapi.DeviceAttributeMaxValueLength:
		return fmt.Errorf("resourceName %q: %d characters are more than the %d of a device's attribute", pool, len(pool), resourceapi.DeviceAttributeMaxValueLength)
	}
	return nil
}
