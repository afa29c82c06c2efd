package canary

import (
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
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
	// Warning and Blocker decide for --fail-on. Warnings are skipped networks and lossy
	// pings, blockers are failed pods and pings.
	Warning int `json:"warning"`
	Blocker int `json:"blocker"`
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
	// Problems describe why it failed.
	Problems []string `json:"problems,omitempty"`
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

// NewReport makes a report, with its totals.
func NewReport(source string, networks []NetworkReport, leftBehind []string) *Report {
	r := &Report{APIVersion: APIVersion, Kind: reportKind, Source: source, Networks: networks, LeftBehind: leftBehind}
	for i := range networks {
		r.Summary.count(&networks[i])
	}
	r.Summary.Warning += len(leftBehind)
	return r
}

// count adds a network to the totals.
func (s *Summary) count(n *NetworkReport) {
	s.Networks++
	if n.Skipped != "" {
		s.Skipped++
		s.Warning++
	}
	for _, p := range n.Pods {
		s.Pods++
		if p.Status == OK {
			s.PodsOK++
		} else {
			s.Blocker++
		}
	}
	for _, p := range n.Pings {
		s.Pings++
		switch p.Status {
		case OK:
			s.PingsOK++
		case Lossy:
			s.Lossy++
			s.Warning++
		case NotExpected:
			s.NotExpected++
		default:
			s.PingsFailed++
			s.Blocker++
		}
	}
}
