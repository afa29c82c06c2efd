package controller

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"
)

var hosts = []string{"nadra-webhook.nadra-system.svc"}

// trusts checks that a caller with a bundle trusts the certificate of a chain.
func trusts(t *testing.T, bundle []byte, c *chain, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if _, err := c.leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: hosts[0], CurrentTime: now}); err != nil {
		t.Fatalf("at %s: %v", now.Format(time.DateOnly), err)
	}
}

// TestChainIsTrustedThroughItsLife checks for three years that a caller with the latest or the previous
// bundle trusts the served certificate, and that each chain survives the Secret.
func TestChainIsTrustedThroughItsLife(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var current *chain
	var previous []byte
	var authorities, leaves int
	for now := start; now.Before(start.Add(3 * lifetime)); {
		next, again, err := current.next(now, hosts)
		if err != nil {
			t.Fatal(err)
		}
		if again <= 0 {
			t.Fatalf("at %s: the next step is in %s", now, again)
		}
		if next != current {
			if current == nil || !bytes.Equal(current.pair[0], next.pair[0]) {
				leaves++
			}
			if current == nil || !current.authority.cert.Equal(next.authority.cert) {
				authorities++
			}
			if previous != nil {
				trusts(t, previous, next, now)
			}
		}
		trusts(t, next.bundle(), next, now)
		previous = next.bundle()
		data, err := next.data()
		if err != nil {
			t.Fatal(err)
		}
		if current, err = readChain(data, now); err != nil {
			t.Fatal(err)
		}
		if len(current.earlier) > 1 {
			t.Fatalf("at %s: %d earlier authorities are still trusted", now, len(current.earlier))
		}
		now = now.Add(min(again, 30*24*time.Hour))
	}
	if authorities != 5 || leaves != 5 {
		t.Errorf("in three years there were %d authorities and %d certificates, want 5 of each: one every two thirds of a year", authorities, leaves)
	}
}

func TestChainIsMadeAnew(t *testing.T) {
	now := time.Now()
	made, _, err := (*chain)(nil).next(now, hosts)
	if err != nil {
		t.Fatal(err)
	}
	if same, _, _ := made.next(now, hosts); same != made {
		t.Error("a chain that is in order was replaced")
	}
	renamed, _, err := made.next(now, []string{"other.nadra-system.svc"})
	if err != nil || renamed.leaf.VerifyHostname("other.nadra-system.svc") != nil {
		t.Errorf("for another name of the Service the certificate is not replaced: %v", err)
	}
	if !renamed.authority.cert.Equal(made.authority.cert) {
		t.Error("for another name of the service the CA was replaced, too")
	}
}

// TestChainOfAnotherClock checks that an API server trusts a chain that was made by a clock
// an hour ahead or behind, and that the chain stays when that clock is put right.
func TestChainOfAnotherClock(t *testing.T) {
	now := time.Now()
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		made, _, err := (*chain)(nil).next(now.Add(skew), hosts)
		if err != nil {
			t.Fatal(err)
		}
		trusts(t, made.bundle(), made, now)
		trusts(t, made.bundle(), made, now.Add(-time.Minute))
		if same, again, err := made.next(now, hosts); err != nil || same != made || again <= 0 {
			t.Errorf("made %s from now, it is replaced: %v, the next step is in %s", skew, err, again)
		}
	}
}

func TestReadChainRefuses(t *testing.T) {
	now := time.Now()
	made, _, err := (*chain)(nil).next(now, hosts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(map[string][]byte)
		at     time.Time
	}{
		{"nothing in it", func(d map[string][]byte) { clear(d) }, now},
		{"no CA", func(d map[string][]byte) { d[caCertKey] = []byte("x") }, now},
		{"another CA's key", func(d map[string][]byte) { d[caKeyKey] = d[tlsKeyKey] }, now},
		{"a damaged certificate", func(d map[string][]byte) { d[tlsCertKey] = d[tlsCertKey][:40] }, now},
		{"expired", func(map[string][]byte) {}, now.Add(2 * lifetime)},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := made.data()
			if err != nil {
				t.Fatal(err)
			}
			c.change(data)
			if _, err := readChain(data, c.at); err == nil {
				t.Error("it was read")
			}
		})
	}
}
