package controller

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
)

var hosts = []string{Service + ".nadra-system.svc", Service + ".nadra-system.svc.cluster.local"}

func newTestPair(t *testing.T, now time.Time) *pair {
	t.Helper()
	p, err := newPair(now, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pair) data() map[string][]byte {
	return map[string][]byte{corev1.TLSCertKey: p.crt, corev1.TLSPrivateKeyKey: p.key}
}

// TestPairOfAnotherClock checks that a pair of a clock an hour ahead or behind is valid, and not due.
func TestPairOfAnotherClock(t *testing.T) {
	now := time.Now()
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		p, err := readPair(newTestPair(t, now.Add(skew)).data(), now, hosts)
		if err != nil || p.dueIn(now) <= 0 {
			t.Errorf("made %s from now, the pair is due: %v", skew, err)
		}
	}
}

func TestReadPairRefuses(t *testing.T) {
	now := time.Now()
	other := newTestPair(t, now)
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		names  []string
		at     time.Time
	}{
		"nothing in it":         {change: func(d map[string][]byte) { clear(d) }},
		"another key":           {change: func(d map[string][]byte) { d[corev1.TLSPrivateKeyKey] = other.key }},
		"a damaged certificate": {change: func(d map[string][]byte) { d[corev1.TLSCertKey] = d[corev1.TLSCertKey][:40] }},
		"expired":               {at: now.Add(lifetime + time.Second)},
		"of another namespace":  {names: []string{Service + ".other.svc"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := newTestPair(t, now).data()
			if c.change != nil {
				c.change(data)
			}
			if c.at.IsZero() {
				c.at = now
			}
			if c.names == nil {
				c.names = hosts
			}
			if _, err := readPair(data, c.at, c.names); err == nil {
				t.Error("it was read")
			}
		})
	}
}

// TestPairOfAnAuthority checks that a certificate that somebody else has signed is used, like those of earlier
// versions and of cert-manager's issuers: callers trust the certificate itself.
func TestPairOfAnAuthority(t *testing.T) {
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := newTestPair(t, now)
	signer, err := keyutil.ParsePrivateKeyPEM(authority.key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: hosts, NotBefore: now, NotAfter: now.Add(lifetime)}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.cert, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPair((&pair{crt: encode(leaf), key: keyPEM}).data(), now, hosts); err != nil {
		t.Error(err)
	}
}

// TestTrust checks what callers trust besides the pairs: certificates with which a replica may serve, but never
// more than a few.
func TestTrust(t *testing.T) {
	now := time.Now()
	stored, next := newTestPair(t, now), newTestPair(t, now)
	var trusted []*x509.Certificate
	for range maxEarlier + 3 {
		trusted = append(trusted, newTestPair(t, now).cert)
	}
	for name, c := range map[string]struct {
		stored, next *pair
		trusted      []*x509.Certificate
		quiet        time.Duration
		want         []*x509.Certificate
	}{
		"a new installation":    {next: next, quiet: time.Hour, want: []*x509.Certificate{next.cert}},
		"stored long ago":       {stored: stored, trusted: append(trusted[:1:1], stored.cert), quiet: settle, want: []*x509.Certificate{stored.cert}},
		"just stored":           {stored: stored, trusted: append(trusted[:1:1], stored.cert), quiet: settle - 1, want: []*x509.Certificate{trusted[0], stored.cert}},
		"due":                   {stored: stored, next: next, trusted: []*x509.Certificate{stored.cert}, quiet: time.Hour, want: []*x509.Certificate{stored.cert, next.cert}},
		"the Secret is missing": {next: next, trusted: trusted[:1], quiet: time.Hour, want: []*x509.Certificate{trusted[0], next.cert}},
		"many":                  {next: next, trusted: trusted, want: append(trusted[:maxEarlier:maxEarlier], next.cert)},
	} {
		t.Run(name, func(t *testing.T) {
			got := trust(c.stored, c.next, c.trusted, c.quiet)
			if string(encode(got...)) != string(encode(c.want...)) {
				t.Errorf("%d certificates are trusted, want %d, or others", len(got), len(c.want))
			}
		})
	}
}
