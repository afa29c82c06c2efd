package canary

import (
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Status is the outcome of a canary or a ping.
type Status string

// The outcomes.
const (
	OK Status = "ok"
	// NotExpected is the status of an unanswered ping between pods that cannot reach
	// each other.
	NotExpected Status = "not expected"
	// Lossy is the status of a ping with unanswered requests.
	Lossy   Status = "lossy"
	Skipped Status = "skipped"
	Failed  Status = "failed"
)

// Report is the result of a plan.
type Report struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Source     string          `json:"source,omitempty"`
	Summary    Summary         `json:"summary"`
	Networks   []NetworkReport `json:"networks"`
	// Findings are about networks, and about canaries that are left behind.
	Findings []translate.Finding `json:"findings,omitempty"`
	// LeftBehind are canaries that could not be deleted, or were not gone in time.
	LeftBehind []string `json:"leftBehind,omitempty"`
}

// Summary has the totals of a report.
type Summary struct {
	// Networks is the number of the plan's networks; Skipped were not tested.
	Networks int `json:"networks"`
	Skipped  int `json:"skipped"`
	Pods     int `json:"pods"`
	PodsOK   int `json:"podsOK"`
	// Pings is the number of pinged addresses; the following fields count them by
	// outcome.
	Pings       int `json:"pings"`
	PingsOK     int `json:"pingsOK"`
	Lossy       int `json:"lossy"`
	NotExpected int `json:"notExpected"`
	PingsFailed int `json:"pingsFailed"`
	// Counts are those of the findings.
	translate.Counts
}

// NetworkReport is the result of a network.
type NetworkReport struct {
	Network string   `json:"network"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	// Skipped is why it was not tested; empty if it was.
	Skipped string       `json:"skipped,omitempty"`
	Pods    []PodReport  `json:"pods,omitempty"`
	Pings   []PingReport `json:"pings,omitempty"`
}

// PodReport is the result of a canary.
type PodReport struct {
	Pod
	Status Status `json:"status"`
	// By is who attached the network.
	By attachment.Attacher `json:"by,omitempty"`
	// Interface, IPs and MAC are from network-status.
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	// ReadyMillis is the time until it was ready.
	ReadyMillis int64 `json:"readyMillis,omitempty"`
	// Code and Problems say why it failed.
	Code     translate.Code `json:"code,omitempty"`
	Problems []string       `json:"problems,omitempty"`
}

// PingReport is the result of the pings to an address.
type PingReport struct {
	// From and To are the names of canaries.
	From     string `json:"from"`
	FromNode string `json:"fromNode"`
	To       string `json:"to"`
	ToNode   string `json:"toNode"`
	probe.Ping
	Status Status `json:"status"`
	// Message explains a status that is not OK.
	Message string `json:"message,omitempty"`
}

// NewReport makes a report, with its findings and totals.
func NewReport(source string, networks []NetworkReport, leftBehind []string) *Report {
	r := &Report{APIVersion: APIVersion, Kind: reportKind, Source: source, Networks: networks, LeftBehind: leftBehind}
	for i := range networks {
		r.add(&networks[i])
	}
	for _, pod := range leftBehind {
		r.found(codeLeftBehind, "Pod", pod, "it still exists: delete it by hand")
	}
	r.Summary.Counts = translate.Count(r.Findings)
	return r
}

// found adds a finding about NAMESPACE/NAME.
func (r *Report) found(code translate.Code, kind, object, message string) {
	namespace, name, _ := strings.Cut(object, "/")
	r.Findings = append(r.Findings, translate.NewFinding(rules, code, translate.ObjectRef{Kind: kind, Namespace: namespace, Name: name}, message))
}

// add adds the findings of a network, and adds it to the totals.
func (r *Report) add(n *NetworkReport) {
	s := &r.Summary
	found := func(code translate.Code, message string) {
		r.found(code, "NetworkAttachmentDefinition", n.Network, message)
	}
	s.Networks++
	if n.Skipped != "" {
		s.Skipped++
		found(codeNotTested, n.Skipped)
	}
	for _, p := range n.Pods {
		s.Pods++
		if p.Status == OK {
			s.PodsOK++
			continue
		}
		found(p.Code, p.Node+": pod "+p.Namespace+"/"+p.Name+": "+strings.Join(p.Problems, "; "))
	}
	for _, p := range n.Pings {
		s.Pings++
		var code translate.Code = codePing
		count := &s.PingsFailed
		switch p.Status {
		case OK:
			s.PingsOK++
			continue
		case Lossy:
			code, count = codeLossy, &s.Lossy
		case NotExpected:
			code, count = codeSeparate, &s.NotExpected
		}
		*count++
		found(code, fmt.Sprintf("%s to %s, %s: %s", p.FromNode, p.ToNode, p.Address, p.Message))
	}
}
