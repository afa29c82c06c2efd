package publish

import (
	"errors"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestDecide(t *testing.T) {
	noMaster := reason.Errorf(reason.MasterMissing, `interface "lan0" is not on the node`)
	sick := errors.New("daemon is down")
	for name, tt := range map[string]struct {
		change  func(*candidate)
		want    reason.Code // "" if it is published
		message string
	}{
		"without STATUS":          {func(*candidate) {}, "", ""},
		"unusable":                {func(c *candidate) { c.unusable = noMaster }, reason.MasterMissing, "lan0"},
		"unusable, and not owned": {func(c *candidate) { c.unusable, c.owned = noMaster, false }, reason.MasterMissing, ""},
		"not owned":               {func(c *candidate) { c.owned = false }, reason.NodeNotOwned, ""},
		"of a resource pool": {func(c *candidate) {
			c.pooled = reason.Errorf(reason.PoolDevice, "its devices are those of its resource pool")
		}, reason.PoolDevice, ""},
		"healthy":                    {func(c *candidate) { c.status = pluginStatus{asked: true, answered: true} }, "", ""},
		"unhealthy":                  {func(c *candidate) { c.status = pluginStatus{asked: true, answered: true, err: sick} }, reason.PluginUnhealthy, "daemon is down"},
		"unhealthy and published":    {func(c *candidate) { c.status, c.published = pluginStatus{asked: true, answered: true, err: sick}, true }, reason.PluginUnhealthy, ""},
		"unhealthy and not owned":    {func(c *candidate) { c.status, c.owned = pluginStatus{asked: true, answered: true, err: sick}, false }, reason.NodeNotOwned, ""},
		"new, without an answer":     {func(c *candidate) { c.status = pluginStatus{asked: true} }, reason.StatusPending, ""},
		"changed, without an answer": {func(c *candidate) { c.status, c.published = pluginStatus{asked: true}, true }, "", ""},
		"the answer is overdue":      {func(c *candidate) { c.status = pluginStatus{asked: true, overdue: true} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := candidate{Definition: &offer.Definition{Network: attachment.Network{CNIVersion: "1.1.0"}}, owned: true}
			tt.change(&c)
			err := decide(c)
			drivertest.Same(t, "reason", tt.want, reason.Of(err))
			if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("decision %v", err)
			}
		})
	}
}

// TestAsksStatus checks that plugins are asked only if their answer decides.
func TestAsksStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		version string
		change  func(*candidate)
		want    bool
	}{
		"an old one":         {"1.0.0", func(*candidate) {}, false},
		"a new one":          {"1.1.0", func(*candidate) {}, true},
		"unhealthy":          {"1.1.0", func(c *candidate) { c.status = pluginStatus{asked: true, answered: true, err: errors.New("no")} }, true},
		"unusable":           {"1.1.0", func(c *candidate) { c.unusable = errors.New("no") }, false},
		"not owned":          {"1.1.0", func(c *candidate) { c.owned = false }, false},
		"of a resource pool": {"1.1.0", func(c *candidate) { c.pooled = errors.New("no") }, false},
	} {
		c := candidate{Definition: &offer.Definition{Network: attachment.Network{CNIVersion: tt.version}}, owned: true}
		tt.change(&c)
		drivertest.Same(t, name, tt.want, c.asksStatus())
	}
}
