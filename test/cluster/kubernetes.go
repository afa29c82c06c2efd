package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variables of the environment choose the Kubernetes of every cluster, so that all suites
// run on each version, and with each setting, without a word about it.
const (
	// kubernetesVariable is a minor version such as 1.35, one of those that
	// components/kubernetes has a file for. The default is go.mod's.
	kubernetesVariable = "NADRA_KUBERNETES"
	// kubeletVariable is the minor version of the kubelets, if it is not that of the rest.
	kubeletVariable = "NADRA_KUBELET"
	// emulateVariable is an older minor version: the control plane has its APIs and feature
	// gates (KEP-4330).
	emulateVariable = "NADRA_EMULATE"
	// gatesVariable switches feature gates of all components: DRADeviceTaints=false,…
	gatesVariable = "NADRA_FEATURE_GATES"
)

// deviceStatusGate is locked since 1.37, so it can be off only if the control plane emulates
// an older version, which a kubelet cannot.
const deviceStatusGate = "DRAResourceClaimDeviceStatus"

// kubernetesBuild describes etcd and the components of Kubernetes, which are one program.
func (b *planner) kubernetesBuild(components, minor string) goBuild {
	dir, modfile := filepath.Join(components, "kubernetes"), modfileOf(minor)
	version := b.requiredVersion(filepath.Join(dir, modfile), "k8s.io/kubernetes")
	return goBuild{
		name: "kubernetes", version: version, dir: dir, modfile: modfile,
		ldflags: kubernetesVersionFlags(version), output: "hyper", packages: []string{"."},
		own:   "k8s.io/kubernetes/...",
		links: []string{Etcd, APIServer, ControllerManager, Scheduler, Kubelet},
	}
}

// modfileOf returns the file like go.mod of a choice in the environment: 1.35 is v1.35.mod,
// newest-nri is newest-nri.mod, and the default is go.mod.
func modfileOf(choice string) string {
	switch {
	case choice == "":
		return goMod
	case '0' <= choice[0] && choice[0] <= '9':
		return "v" + choice + ".mod"
	}
	return choice + ".mod"
}

// kubernetesVersionFlags returns the flags by which the components report their version.
// Without them the API server claims to be v0.0.0, which clients refuse.
func kubernetesVersionFlags(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const variable = " -X k8s.io/component-base/version."
	return variable + "gitVersion=" + version + variable + "gitMajor=" + parts[0] + variable + "gitMinor=" + parts[1]
}

// readEnvironment sets what the environment chooses and the options do not.
func (o *Options) readEnvironment() error {
	if o.EmulatedVersion == "" {
		o.EmulatedVersion = os.Getenv(emulateVariable)
	}
	if o.Layout == "" {
		o.Layout = os.Getenv(layoutVariable)
	}
	if o.Families == "" {
		o.Families = os.Getenv(familiesVariable)
	}
	gates := map[string]bool{}
	for setting := range strings.SplitSeq(os.Getenv(gatesVariable), ",") {
		if setting == "" {
			continue
		}
		name, text, _ := strings.Cut(setting, "=")
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("reading %s: %q is not NAME=true or NAME=false", gatesVariable, setting)
		}
		gates[name] = on
	}
	maps.Copy(gates, o.FeatureGates)
	o.FeatureGates = gates
	return nil
}

// versionArgs returns the arguments of a component of the control plane for its emulated
// version and feature gates.
func (o Options) versionArgs() []string {
	var args []string
	if o.EmulatedVersion != "" {
		args = append(args, "--emulated-version="+o.EmulatedVersion)
	}
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, o.FeatureGates[name]))
	}
	if len(gates) > 0 {
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	return args
}

// kubeletFields returns the fields of the KubeletConfiguration that the options set.
func (o Options) kubeletFields() object {
	gates := map[string]bool{}
	maps.Copy(gates, o.FeatureGates)
	// The kubelet does not read it, and one of 1.37 refuses to switch it off.
	delete(gates, deviceStatusGate)
	// Kubernetes 1.34 refuses the field without its gate.
	if _, ok := o.KubeletConfig["crashLoopBackOff"]; ok {
		gates["KubeletCrashLoopBackOffMax"] = true
	}
	fields := object{"featureGates": gates}
	maps.Copy(fields, o.KubeletConfig)
	return fields
}
