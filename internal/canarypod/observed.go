// Package canarypod runs in the pods of a canary: it lists the pod's interfaces, answers datagrams, pings other
// canaries, and defines how it reports that to the desk. It needs no privilege: it sends ICMP echo by the kernel's
// ping sockets, which the pod's sysctl net.ipv4.ping_group_range permits, and otherwise datagrams to the other canary.
package canarypod

import (
	"encoding/json"
	"fmt"
)

// APIVersion is the API version of the output of canaries. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// Kinds of the output of canaries.
const (
	InspectionKind = "CanaryInspection"
	PingsKind      = "CanaryPings"
)

// Command is the subcommand of nadra-node that runs in a canary.
const Command = "canary"

// Port is the UDP port on which canaries answer if ICMP is not permitted.
const Port = 47763

// Inspection has the interfaces of a canary.
type Inspection struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Links are the interfaces without lo.
	Links []Link `json:"links"`
}

// Link is an interface of a canary.
type Link struct {
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Up is true if it is set up, Running if it can carry traffic.
	Up      bool `json:"up"`
	Running bool `json:"running"`
	// Addresses have their prefix length.
	Addresses []string `json:"addresses,omitempty"`
}

// Pings has the results of a canary's pings.
type Pings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Pings      []Ping `json:"pings"`
}

// Methods of pinging.
const (
	ICMP = "icmp" // an echo request, answered by the other kernel
	UDP  = "udp"  // a datagram, answered by the other canary
)

// Ping is the result of the requests to an address.
type Ping struct {
	Address string `json:"address"`
	// Via is the interface through which the kernel sends the requests.
	Via      string `json:"via,omitempty"`
	Method   string `json:"method,omitempty"`
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// MedianMicros is the median round trip in microseconds.
	MedianMicros int64  `json:"medianMicros,omitempty"`
	Error        string `json:"error,omitempty"`
}

// DecodeInspection parses the output of nadra-node canary inspect.
func DecodeInspection(text []byte) (*Inspection, error) {
	var out Inspection
	return &out, decode(text, InspectionKind, &out)
}

// DecodePings parses the output of nadra-node canary ping.
func DecodePings(text []byte) (*Pings, error) {
	var out Pings
	return &out, decode(text, PingsKind, &out)
}

func decode(text []byte, kind string, to any) error {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("reading the canary's output: %w: %.200q", err, text)
	}
	if head.APIVersion != APIVersion || head.Kind != kind {
		return fmt.Errorf("reading the canary's output: apiVersion %.60q and kind %.60q are not %s %s: use an image of this version",
			head.APIVersion, head.Kind, APIVersion, kind)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("reading the canary's output: %w", err)
	}
	return nil
}
