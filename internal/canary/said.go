package canary

import (
	"encoding/json"
	"fmt"
)

// Look is what a canary sees of its own interfaces.
type Look struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Links are all but lo.
	Links []Link `json:"links"`
}

// Link is an interface of a canary.
type Link struct {
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Up says that it was set up, Running that it could carry traffic.
	Up      bool `json:"up"`
	Running bool `json:"running"`
	// Addresses have their prefix length.
	Addresses []string `json:"addresses,omitempty"`
}

// Pings are what a canary says of others.
type Pings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Pings      []Ping `json:"pings"`
}

// Methods of pinging.
const (
	ICMP = "icmp" // an echo request, which the other kernel answers
	UDP  = "udp"  // a datagram, which the other canary answers
)

// Ping is what became of the requests to one address.
type Ping struct {
	Address string `json:"address"`
	// Via is the interface by which the kernel sends there.
	Via      string `json:"via,omitempty"`
	Method   string `json:"method,omitempty"`
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// MedianMicros is the median round trip in microseconds.
	MedianMicros int64  `json:"medianMicros,omitempty"`
	Error        string `json:"error,omitempty"`
}

// DecodeLook reads what the tool prints.
func DecodeLook(text []byte) (*Look, error) {
	var out Look
	return &out, decode(text, LookKind, &out)
}

// DecodePings reads what the tool prints.
func DecodePings(text []byte) (*Pings, error) {
	var out Pings
	return &out, decode(text, PingsKind, &out)
}

func decode(text []byte, kind string, to any) error {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("reading what the canary says: %w: %.200q", err, text)
	}
	if head.APIVersion != APIVersion || head.Kind != kind {
		return fmt.Errorf("reading what the canary says: it is %.60q %.60q, not %s %s: is the image of another version?", head.APIVersion, head.Kind, APIVersion, kind)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("reading what the canary says: %w", err)
	}
	return nil
}
