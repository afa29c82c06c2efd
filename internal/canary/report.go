package canary

// Status is the outcome of something that was tried.
type Status string

// The outcomes.
const (
	OK Status = "ok"
	// NotExpected is a ping that was not answered and could not have been.
	NotExpected Status = "not expected"
	// Lossy is a ping of which some requests were not answered.
	Lossy   Status = "lossy"
	Skipped Status = "skipped"
	Failed  Status = "failed"
)

// Report is what became of a plan.
type Report struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Source     string          `json:"source,omitempty"`
	Summary    Summary         `json:"summary"`
	Networks   []NetworkReport `json:"networks"`
	// LeftBehind are pods that could not be deleted, or were not gone in time.
	LeftBehind []string `json:"leftBehind,omitempty"`
}

// Summary are the totals; they are there also when nothing was tried.
type Summary struct {
	// Networks are all of the plan; Skipped were not tried.
	Networks int `json:"networks"`
	Skipped  int `json:"skipped"`
	Pods     int `json:"pods"`
	PodsOK   int `json:"podsOK"`
	// Pings are how many addresses were pinged, by outcome.
	Pings       int `json:"pings"`
	PingsOK     int `json:"pingsOK"`
	Lossy       int `json:"lossy"`
	NotExpected int `json:"notExpected"`
	PingsFailed int `json:"pingsFailed"`
	// Warning and Blocker are what counts for --fail-on: networks that were
	// skipped and lossy pings; pods and pings that failed.
	Warning int `json:"warning"`
	Blocker int `json:"blocker"`
}

// NetworkReport is what became of one network.
type NetworkReport struct {
	Network string   `json:"network"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	// Skipped is why it was not tried; empty where it was.
	Skipped string       `json:"skipped,omitempty"`
	Pods    []PodReport  `json:"pods,omitempty"`
	Pings   []PingReport `json:"pings,omitempty"`
}

// PodReport is what became of one canary.
type PodReport struct {
	Pod
	Status Status `json:"status"`
	// By is who attached the network: nadra, or multus.
	By string `json:"by,omitempty"`
	// Interface, IPs and MAC are those of network-status.
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	// ReadyMillis is how long it took to be ready.
	ReadyMillis int64 `json:"readyMillis,omitempty"`
	// Problems are what is wrong.
	Problems []string `json:"problems,omitempty"`
}

// PingReport is what became of the pings to one address.
type PingReport struct {
	// From and To are names of canaries.
	From     string `json:"from"`
	FromNode string `json:"fromNode"`
	To       string `json:"to"`
	ToNode   string `json:"toNode"`
	Ping
	Status Status `json:"status"`
	// Message says why it is not ok.
	Message string `json:"message,omitempty"`
}

// NewReport counts what became of a plan's networks.
func NewReport(source string, networks []NetworkReport, leftBehind []string) *Report {
	r := &Report{APIVersion: APIVersion, Kind: ReportKind, Source: source, Networks: networks, LeftBehind: leftBehind}
	for i := range networks {
		r.Summary.count(&networks[i])
	}
	r.Summary.Warning += len(leftBehind)
	return r
}

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
