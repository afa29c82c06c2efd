package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"
)

// conf is the part of its configuration that a stand-in reads.
type conf struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Type       string `json:"type"`
	MTU        int    `json:"mtu"`
	IPAM       struct {
		Type string `json:"type"`
	} `json:"ipam"`
	PrevResult    json.RawMessage `json:"prevResult"`
	RuntimeConfig struct {
		MAC        string `json:"mac"`
		DeviceInfo string `json:"CNIDeviceInfoFile"`
	} `json:"runtimeConfig"`
	// Behave is the behaviour that a case of the suite requests.
	Behave behaviour `json:"behave"`

	raw []byte
}

type behaviour struct {
	// Fail has the commands that fail, with Code; 100 by default.
	Fail []string `json:"fail"`
	Code uint     `json:"code"`
	// Interfaces is how many interfaces the stand-in creates and reports; one by default.
	Interfaces *int `json:"interfaces"`
	// Names are the names of the interfaces, in place of those that follow from CNI_IFNAME.
	Names []string `json:"names"`
	// Spread gives the addresses to the interfaces in order, one to each.
	Spread bool `json:"spread"`
	// Host also reports the other end of the pair, which is not in the pod.
	Host bool      `json:"host"`
	DNS  types.DNS `json:"dns"`
	// ReportMTU adds the MTU to the result, as CNI 1.1 allows.
	ReportMTU bool `json:"reportMTU"`
	// NoIndex leaves out the interface of an address.
	NoIndex bool `json:"noIndex"`
	// DeviceInfo is written to the file that the capability names.
	DeviceInfo json.RawMessage `json:"deviceInfo"`
}

// standIn does the work of a plugin with that name, as far as a runtime sees it.
func standIn(name string, stdin []byte) error {
	command := os.Getenv("CNI_COMMAND")
	if command == "VERSION" {
		return version.All.Encode(os.Stdout)
	}
	c := conf{raw: stdin}
	if err := json.Unmarshal(stdin, &c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if slices.Contains(c.Behave.Fail, command) {
		return types.NewError(max(c.Behave.Code, 100), "the case requests a failure", "")
	}
	switch {
	case command != "ADD" && command != "DEL":
		return nil
	case c.IPAM.Type == name && c.Type != name: // called as IPAM by the plugin whose configuration it is
		return c.allot(command)
	case command == "ADD" && len(c.PrevResult) > 0 && string(c.PrevResult) != "null": // further down a chain
		return c.pass()
	case command == "ADD":
		return c.add()
	}
	return c.del()
}

// pass prints the result of the previous plugin.
func (c conf) pass() error {
	result, err := create.Create(c.CNIVersion, c.PrevResult)
	if err != nil {
		return fmt.Errorf("reading prevResult: %w", err)
	}
	return types.PrintResult(result, c.CNIVersion)
}

func (c conf) print(result *types100.Result) error {
	v := c.CNIVersion
	if v == "" {
		v = "0.1.0" // the CNI specification's meaning of a missing version
	}
	return types.PrintResult(result, v)
}

// digest returns a hash that is the same for the same attachment on both sides.
func digest(more string) [sha256.Size]byte {
	return sha256.Sum256([]byte(os.Getenv("CNI_CONTAINERID") + os.Getenv("CNI_IFNAME") + more))
}

// mac returns the requested address, or one that is the same for the same attachment and
// begins like no other on the node.
func (c conf) mac(i int) string {
	if i == 0 && c.RuntimeConfig.MAC != "" {
		return c.RuntimeConfig.MAC
	}
	for _, pair := range strings.Split(os.Getenv("CNI_ARGS"), ";") {
		if mac, ok := strings.CutPrefix(pair, "MAC="); ok && i == 0 {
			return mac
		}
	}
	sum := digest(fmt.Sprint("mac", i))
	return fmt.Sprintf("02:5a:6e:61:%02x:%02x", sum[0], sum[1])
}

func (c conf) writeDeviceInfo() error {
	path := c.RuntimeConfig.DeviceInfo
	if path == "" || len(c.Behave.DeviceInfo) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, c.Behave.DeviceInfo, 0o644)
}
