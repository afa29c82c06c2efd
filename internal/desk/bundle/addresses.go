package bundle

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// pseudonyms replaces addresses: the same address has the same pseudonym everywhere. They are
// numbered in the order of the text, so they do not reveal subnets.
type pseudonyms struct {
	names map[string]string
	count map[string]int
}

// newPseudonyms returns pseudonyms without addresses.
func newPseudonyms() *pseudonyms {
	return &pseudonyms{names: map[string]string{}, count: map[string]int{}}
}

var (
	// The character before it is ignored: in JSON, it may be the n of \n.
	macAddress = regexp.MustCompile(`[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5,19}\b`)
	// A node's name may have an address with dashes: ip-10-0-0-7.
	dashed = regexp.MustCompile(`ip-[0-9]{1,3}(?:-[0-9]{1,3}){3}\b`)
	ipv4   = regexp.MustCompile(`(?i:::ffff:)?[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b`)
	ipv6   = regexp.MustCompile(`(?:[0-9A-Fa-f]{0,4}:){2,8}[0-9A-Fa-f]{0,4}`)
)

// hide replaces all addresses of a text, except loopback and unspecified ones, which are the
// same everywhere.
func (p *pseudonyms) hide(text string) string {
	text = macAddress.ReplaceAllStringFunc(text, func(s string) string {
		return p.of("mac", strings.ToLower(strings.ReplaceAll(s, "-", ":")))
	})
	text = dashed.ReplaceAllStringFunc(text, func(s string) string {
		if name := p.address(strings.ReplaceAll(s[len("ip-"):], "-", ".")); name != "" {
			return "ip-" + name
		}
		return s
	})
	text = ipv4.ReplaceAllStringFunc(text, func(s string) string {
		if name := p.address(s); name != "" {
			return name
		}
		return s
	})
	return ipv6.ReplaceAllStringFunc(text, func(s string) string {
		// A colon may belong to the text around it: "at fe80::1: no".
		lead, address := "", s
		for {
			if out := p.address(address); out != "" {
				return lead + out + s[len(lead)+len(address):]
			}
			switch {
			case strings.HasSuffix(address, ":"):
				address = address[:len(address)-1]
			case strings.HasPrefix(address, ":"):
				lead, address = lead+":", address[1:]
			default:
				return s
			}
		}
	})
}

// address returns the pseudonym of an address, or "" if the text is not an address.
func (p *pseudonyms) address(text string) string {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return ""
	case a.IsLoopback() || a.IsUnspecified():
		return text
	case a.Unmap().Is4():
		return p.of("ipv4", a.Unmap().String())
	}
	return p.of("ipv6", a.String())
}

// of returns the pseudonym of an address.
func (p *pseudonyms) of(kind, address string) string {
	if p.names[address] == "" {
		p.count[kind]++
		p.names[address] = fmt.Sprintf("%s-%d", kind, p.count[kind])
	}
	return p.names[address]
}
