package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

// settleTime limits the wait for duplicate address detection, which the kernel begins up to a second late and which
// takes one more. On a link without a carrier it does not end.
const (
	settleTime = 5 * time.Second
	settlePoll = 50 * time.Millisecond
)

// settle waits until the kernel has found out whether another host has one of the new IPv6 addresses, and returns an
// error if it has, or if that cannot be known, and a record that must not count as attached: no container starts with an
// address that it may not use.
func settle(ctx context.Context, namespaces Netns, netns string, todo []checkpoint.Record) (wrong checkpoint.Key, err error) {
	last := todo[len(todo)-1].Key()
	made := make([]map[string]cniexec.Interface, len(todo))
	any6 := false
	for i, r := range todo {
		var result types100.Result
		if err := json.Unmarshal(r.Result, &result); err != nil {
			return r.Key(), fmt.Errorf("reading the result of %s: %w", r.Attachment.Interface, err)
		}
		made[i] = cniexec.Interfaces(&result)
		for _, m := range made[i] {
			any6 = any6 || slices.ContainsFunc(m.IPs, netip.Addr.Is6)
		}
	}
	for began := time.Now(); any6 && time.Since(began) < settleTime; {
		state, err := namespaces.Look(netns)
		if err != nil {
			return last, err
		}
		tentative := false
		for i, r := range todo {
			for _, at := range state.Addresses {
				if !slices.Contains(made[i][at.Interface].IPs, at.IP) {
					continue
				}
				if at.Duplicate {
					return r.Key(), &networkError{r, reason.Errorf(reason.AddressDuplicate, "adding network %s as %s: address %s is another host's: "+
						"duplicate address detection has failed", r.Attachment.Network, at.Interface, at.IP)}
				}
				tentative = tentative || at.Tentative
			}
		}
		if !tentative {
			return wrong, nil
		}
		if !background.Sleep(ctx, settlePoll) {
			return last, context.Cause(ctx)
		}
	}
	return wrong, nil
}
