package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// sampler makes results by hand, as translate would.
type sampler struct {
	result translate.Result
	// live leaves lines out, as an input from a cluster has none.
	live bool
}

var apiVersions = map[string]string{
	"Pod": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "ResourceQuota": "v1",
	"NetworkAttachmentDefinition": "k8s.cni.cncf.io/v1", "VirtualMachine": "kubevirt.io/v1",
}

func ref(kind, namespace, name string) translate.ObjectRef {
	version := apiVersions[kind]
	if version == "" {
		version = "apps/v1"
	}
	return translate.ObjectRef{APIVersion: version, Kind: kind, Namespace: namespace, Name: name}
}

func (s *sampler) at(o translate.ObjectRef, line, column int) translate.Position {
	if s.live {
		return translate.Position{File: fmt.Sprintf("%ss.apps/%s/%s", strings.ToLower(o.Kind), o.Namespace, o.Name)}
	}
	return translate.Position{File: fmt.Sprintf("%s/%s.yaml", o.Namespace, o.Name), Line: line, Column: column}
}

func (s *sampler) look(kind string, n int) {
	if s.result.Kinds == nil {
		s.result.Kinds = map[string]int{}
	}
	s.result.Kinds[kind] += n
}

// find adds a finding and returns the resulting verdict and codes.
func (s *sampler) find(o translate.ObjectRef, codes []translate.Code, message string) (translate.Readiness, []translate.Code) {
	verdict := translate.Ready
	for i, c := range codes {
		rule, _ := translate.RuleOf(c)
		s.result.Findings = append(s.result.Findings, translate.Finding{
			Code: c, Severity: rule.Severity, Object: o, Field: "spec.template.spec", Position: s.at(o, 12+i, 7), Message: message,
		})
		switch {
		case rule.Severity == translate.Blocker:
			verdict = translate.Stays
		case rule.Severity == translate.Warning && verdict == translate.Ready:
			verdict = translate.ReadyNotes
		}
	}
	slices.Sort(codes)
	return verdict, slices.Compact(codes)
}

func (s *sampler) workload(o translate.ObjectRef, networks []string, codes ...translate.Code) *translate.Verdict {
	s.look(o.Kind, 1)
	v := translate.Verdict{Object: o, Position: s.at(o, 1, 1), Networks: networks}
	v.Readiness, v.Codes = s.find(o, codes, "see "+o.Name)
	v.Changed = v.Readiness != translate.Stays
	s.result.Workloads = append(s.result.Workloads, v)
	return &s.result.Workloads[len(s.result.Workloads)-1]
}

func (s *sampler) pods(owner translate.ObjectRef, networks []string, n int) {
	for i := range n {
		v := s.workload(ref("Pod", owner.Namespace, fmt.Sprintf("%s-%d", owner.Name, i)), networks, translate.OwnedWorkload)
		v.Owner = &owner
	}
}

func (s *sampler) network(namespace, name string, plugins []string, ipam string, codes ...translate.Code) *translate.NetworkVerdict {
	o := ref("NetworkAttachmentDefinition", namespace, name)
	s.look(o.Kind, 1)
	v := translate.NetworkVerdict{Object: o, Position: s.at(o, 1, 1), Plugins: plugins, IPAM: ipam}
	if v.Readiness, v.Codes = s.find(o, codes, "its configuration"); v.Readiness != translate.Stays {
		v.Class = name + "." + namespace + ".nad.nadra.dev"
	}
	s.result.Networks = append(s.result.Networks, v)
	return &s.result.Networks[len(s.result.Networks)-1]
}

// unrendered adds something that must be rendered first.
func (s *sampler) unrendered(kind, name string, mentions bool) {
	u := translate.UnrenderedUnit{Object: translate.ObjectRef{Kind: kind, Name: name}, Position: translate.Position{File: name, Line: 4, Column: 1}, Mentions: mentions}
	s.result.Unrendered = append(s.result.Unrendered, u)
	if !mentions {
		return
	}
	rule, _ := translate.RuleOf(translate.Unrendered)
	s.result.Findings = append(s.result.Findings, translate.Finding{Code: rule.Code, Severity: rule.Severity, Object: u.Object, Position: u.Position, Message: "render it"})
	s.result.Workloads = append(s.result.Workloads, translate.Verdict{
		Object: u.Object, Position: u.Position, Readiness: translate.NotJudged, Codes: []translate.Code{rule.Code},
	})
}

// small returns an input with one of everything, for the golden files.
func small(live bool) Input {
	s := sampler{live: live}
	s.network("core5g", "n3", []string{"macvlan", "tuning"}, "whereabouts")
	s.network("core5g", "n4", []string{"macvlan"}, "whereabouts")
	s.network("core5g", "n6", []string{"ipvlan"}, "static", translate.NetworkOwned)
	s.network("ran", "f1u", []string{"sriov"}, "host-local", translate.PoolsNotServed).Pool = "intel.com/f1u"
	s.network("default", "broken", nil, "", translate.NetworkNotJSON)
	n := []string{"core5g/n3", "core5g/n4", "core5g/n6"}
	upf := ref("StatefulSet", "core5g", "upf")
	s.workload(upf, n, translate.SeveralClaims, translate.KeyWithoutEffect).Features = []string{"interface", "ips"}
	s.pods(upf, n, 3)
	s.workload(ref("Deployment", "core5g", "smf"), append([]string{"core5g/n9"}, n...), translate.NetworkNotInInput)
	du := ref("Deployment", "ran", "du")
	s.workload(du, []string{"ran/f1u", "core5g/n3"}, translate.PoolsNotServedUser, translate.HostNetwork).Features = []string{"resources"}
	s.workload(ref("DaemonSet", "storage", "osd"), []string{"storage/ceph-pub"})
	s.workload(ref("Pod", "storage", "debug"), []string{"core5g/n3"})
	s.workload(ref("VirtualMachine", "vms", "db"), nil, translate.VirtualMachines)
	idle := s.workload(ref("Deployment", "storage", "idle"), []string{"core5g/n3"}, translate.HostNetwork)
	idle.Readiness, idle.Changed = translate.NothingToConvert, false
	if !live {
		s.unrendered("Chart", "charts/upf", true)
		s.unrendered("Chart", "charts/web", false)
		s.unrendered("Values", "values.yaml", false)
	}
	s.find(ref("ResourceQuota", "ran", "devices"), []translate.Code{translate.QuotaOldName}, "requests.intel.com/f1u")
	s.look("ConfigMap", 12)
	s.look("ResourceQuota", 1)
	if live {
		return Input{Source: "context kind-lab", Result: s.result}
	}
	return Input{Source: "manifests/", Files: 9, Result: s.result}
}

// large returns a realistic cluster: n workloads in up to eight namespaces.
func large(n int) Input {
	namespaces := []string{"aether-amf", "core5g", "edge-cache", "hpc-train", "monitoring", "ran", "storage", "vms"}
	names := []string{"amf", "smf", "upf", "du", "cu-cp", "osd", "probe", "trainer", "gateway", "cache", "ingest", "recorder"}
	sets := [][]string{{"n3", "n4", "n6"}, {"data"}, {"f1u", "f1c"}, {"ceph-pub", "ceph-cluster"}, {"rdma0", "rdma1", "rdma2", "rdma3"}, {"mgmt"}}
	codes := [][]translate.Code{
		nil, nil, nil,
		{translate.KeyWithoutEffect},
		nil, nil,
		{translate.ControllerAnnotation, translate.UnknownKey},
		nil, nil,
		{translate.HostNetwork},
		nil,
		{translate.SeveralClaims},
		nil, nil,
		{translate.NetworkMissing, translate.ResourceSurplus},
		nil, nil,
	}
	kinds := []string{"Deployment", "StatefulSet", "Deployment", "DaemonSet", "Deployment", "CronJob"}
	s := sampler{}
	seen := map[string]bool{}
	for i := range n {
		namespace := namespaces[(i*i+i/3)%len(namespaces)]
		var networks []string
		for _, name := range sets[i%len(sets)] {
			networks = append(networks, namespace+"/"+name)
			if full := namespace + "/" + name; !seen[full] && name != "f1c" {
				seen[full] = true
				s.network(namespace, name, []string{[]string{"macvlan", "bridge", "sriov", "ipvlan"}[len(seen)%4], "tuning"}[:1+len(seen)%2],
					[]string{"whereabouts", "host-local", "static", "dhcp"}[len(seen)%4])
			}
		}
		o := ref(kinds[i%len(kinds)], namespace, fmt.Sprintf("%s-%02d", names[i%len(names)], i))
		w := s.workload(o, networks, slices.Clone(codes[i%len(codes)])...)
		if i%4 == 0 {
			w.Features = []string{"interface", "ips", "mac"}[:1+i%3]
		}
		if n < 1000 {
			s.pods(o, networks, (i*7)%13)
		}
	}
	s.look("ConfigMap", 3*n)
	s.look("Secret", n/2)
	return Input{Source: "context prod-fra-2", Files: 0, Result: s.result}
}
