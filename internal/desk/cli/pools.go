package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// poolFlag is the value of --pools: true, false, or the names of pools that nadra's nodes
// serve in addition to those that are defined or published.
type poolFlag struct {
	off   bool
	named []string
}

// String implements pflag.Value.
func (f *poolFlag) String() string {
	if len(f.named) > 0 {
		return strings.Join(f.named, ",")
	}
	return strconv.FormatBool(!f.off)
}

// Set implements pflag.Value.
func (f *poolFlag) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		f.off = !on
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if domain, rest, found := strings.Cut(name, "/"); !found || domain == "" || rest == "" {
			return fmt.Errorf("%q is not a resource: write true, false, or names such as intel.com/sriov", name)
		}
		f.named = append(f.named, name)
	}
	return nil
}

// Type implements pflag.Value.
func (f *poolFlag) Type() string { return "pools" }

// server returns a function that reports who serves a pool: by the flag, and by the cluster
// if one was read.
func (f *poolFlag) server(cluster *nodePools) func(string) translate.PoolFacts {
	return func(pool string) translate.PoolFacts {
		switch {
		case slices.Contains(f.named, pool):
			return translate.PoolFacts{Server: translate.PoolOfNadra}
		case cluster != nil:
			return cluster.facts(pool)
		}
		return translate.PoolFacts{Server: translate.PoolOfNobody}
	}
}

// checkDeviceClasses checks the value of --device-class.
func checkDeviceClasses(classes map[string]string) error {
	for key, class := range classes {
		if strings.Count(key, "/") != 1 || len(validation.IsDNS1123Subdomain(class)) > 0 {
			return fmt.Errorf("--device-class: %q is not NAMESPACE/NETWORK=CLASS or RESOURCE=CLASS", key+"="+class)
		}
	}
	return nil
}
