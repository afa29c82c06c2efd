package controller

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// Certificates are valid for a year and replaced after two thirds of it. They are valid from a day
	// ago, for callers whose clocks are behind, or if this one is ahead.
	lifetime  = 365 * 24 * time.Hour
	clockSkew = 24 * time.Hour
	// propagate is how long every API server may take to read a new bundle.
	propagate = time.Minute
	// settle is how long every replica may take to serve with a stored certificate: the kubelet updates
	// the volume within 90 s, and the replica reads it within 10 s.
	settle = 5 * time.Minute
	// patience is how long a new pair waits at most: a tool may replace the bundle again and again.
	patience = time.Hour
	// maxEarlier is how many earlier certificates callers go on to trust for that time.
	maxEarlier = 4
)

// pair is a serving certificate with its key. Callers trust the certificate itself, so no authority is
// needed, whose key could sign others.
type pair struct {
	cert     *x509.Certificate
	crt, key []byte // as PEM
}

// newPair creates a self-signed certificate for the names.
func newPair(now time.Time, names []string) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the serving key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the new serving certificate: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the serving key: %w", err)
	}
	return &pair{made, encode(made), keyPEM}, nil
}

// readPair reads the pair of a Secret. It refuses a certificate that callers would not accept for the names.
func readPair(data map[string][]byte, now time.Time, names []string) (*pair, error) {
	p := &pair{crt: data[corev1.TLSCertKey], key: data[corev1.TLSPrivateKeyKey]}
	both, err := tls.X509KeyPair(p.crt, p.key)
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	p.cert = both.Leaf
	roots := x509.NewCertPool()
	roots.AddCert(p.cert)
	for _, name := range names {
		if _, err := p.cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", corev1.TLSCertKey, err)
		}
	}
	return p, nil
}

// dueIn returns the time until the certificate must be replaced.
func (p *pair) dueIn(now time.Time) time.Duration {
	return p.cert.NotBefore.Add(p.cert.NotAfter.Sub(p.cert.NotBefore) * 2 / 3).Sub(now)
}

// trust returns the certificates that callers must trust: those of the stored pair and of the pair that
// replaces it, either of which may be nil, and some of those that they trust already. With these a replica may
// still serve if no pair is stored, or if Secret and bundle have not been quiet for long.
func trust(stored, next *pair, trusted []*x509.Certificate, quiet time.Duration) []*x509.Certificate {
	var own, earlier []*x509.Certificate
	for _, p := range []*pair{stored, next} {
		if p != nil {
			own = append(own, p.cert)
		}
	}
	if stored == nil || quiet < settle {
		earlier = slices.DeleteFunc(slices.Clone(trusted), func(c *x509.Certificate) bool { return slices.ContainsFunc(own, c.Equal) })
	}
	return append(earlier[:min(len(earlier), maxEarlier)], own...)
}

// readBundle returns the certificates of a bundle that have not expired. It ignores an unreadable bundle,
// which no caller can use.
func readBundle(bundle []byte, now time.Time) []*x509.Certificate {
	list, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

// encode returns certificates as PEM.
func encode(list ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range list {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return out
}
