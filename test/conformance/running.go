package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/test/conformance/compare"
)

// clusterSubnet matches the beginning of the nodes' ranges of pod addresses, and clusterIP
// replaces it in comparisons of pods on different nodes.
var clusterSubnet = regexp.MustCompile(`\b10\.98\.\d+\.`)

const clusterIP = "10.98.N."

// Running describes a running pod for a comparison, by its network namespace and its
// network-status. It replaces the addresses of the default network, and of the picked
// interfaces, which host-local picks: two pods have different ones.
func Running(netns, status string, picked ...string) (out compare.Side, err error) {
	var entries []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(status), &entries); err != nil {
		return out, fmt.Errorf("reading the pod's network-status %q: %w", status, err)
	}
	state, err := Observe(netns)
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(compare.Side{Added: state, Status: status})
	if err != nil {
		return out, err
	}
	text := string(raw)
	for _, s := range entries {
		if !s.Default && !slices.Contains(picked, s.Interface) {
			continue
		}
		for i, ip := range s.IPs {
			text = regexp.MustCompile(`\b`+regexp.QuoteMeta(ip)+`\b`).ReplaceAllString(text, fmt.Sprintf("ADDRESS-%d-OF-%s", i, s.Interface))
		}
	}
	return out, json.Unmarshal([]byte(clusterSubnet.ReplaceAllString(text, clusterIP)), &out)
}

// JudgeRunning compares two pods by the rows of docs/reference/compatibility.md below a root directory.
// asked is the annotation of both.
func JudgeRunning(root string, multus, nadra compare.Side, asked string) (compare.Verdict, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/compatibility.md"))
	if err != nil {
		return compare.Verdict{}, err
	}
	verdicts := compare.Verdicts{}
	if verdicts.Rows, err = compare.Page(string(page)); err != nil {
		return compare.Verdict{}, err
	}
	return verdicts.Judge(compare.Subject{Asked: asked}, compare.Sides(multus, nadra, asked)), nil
}
