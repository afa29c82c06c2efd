package controller

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The keys of the Secret. cert-manager uses the same, except the CA's key.
const (
	caCertKey  = "ca.crt"
	caKeyKey   = "ca.key"
	tlsCertKey = "tls.crt"
	tlsKeyKey  = "tls.key"
)

// Certificates are valid for a year and replaced after two thirds of it. They are valid from a day
// ago, for callers whose clocks are behind, or if this one is ahead.
const (
	lifetime  = 365 * 24 * time.Hour
	clockSkew = 24 * time.Hour
	propagate = time.Minute
)

// authority signs serving certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// chain is the content of the Secret: the signing authority, earlier authorities that callers must still
// trust, and the serving certificate.
type chain struct {
	authority authority
	earlier   []*x509.Certificate
	leaf      *x509.Certificate
	// pair has the leaf and its key as PEM.
	pair [2][]byte
}

// next returns the chain for now, and when to call it again. It returns the same chain if nothing is
// due. A new authority becomes trusted a minute before it signs: until then the old authority's
// certificate is served, so that no replica serves a certificate that an API server does not trust yet.
func (c *chain) next(now time.Time, names []string) (*chain, time.Duration, error) {
	switch {
	case c == nil:
		return fresh(now, names)
	case due(c.authority.cert, now):
		renewed, err := newAuthority(now)
		if err != nil {
			return nil, 0, err
		}
		earlier := append([]*x509.Certificate{c.authority.cert}, c.earlier...)
		return &chain{authority: renewed, earlier: valid(earlier, now), leaf: c.leaf, pair: c.pair}, propagate, nil
	case due(c.leaf, now) || !c.trusted(names):
		out := &chain{authority: c.authority, earlier: valid(c.earlier, now)}
		return out, dueIn(c.authority.cert, now), out.issue(now, names)
	}
	return c, min(dueIn(c.authority.cert, now), dueIn(c.leaf, now)), nil
}

// fresh returns a chain with a new authority and a new leaf.
func fresh(now time.Time, names []string) (*chain, time.Duration, error) {
	made, err := newAuthority(now)
	if err != nil {
		return nil, 0, err
	}
	c := &chain{authority: made}
	return c, dueIn(made.cert, now), c.issue(now, names)
}

// due reports whether a certificate must be replaced.
func due(c *x509.Certificate, now time.Time) bool { return dueIn(c, now) <= 0 }

// dueIn returns the time until a certificate must be replaced.
func dueIn(c *x509.Certificate, now time.Time) time.Duration {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3).Sub(now)
}

// valid returns the certificates that have not expired.
func valid(list []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(list), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

// trusted reports whether the leaf is for the given names and signed by an authority in the bundle.
func (c *chain) trusted(names []string) bool {
	for _, name := range names {
		if c.leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	return slices.ContainsFunc(append([]*x509.Certificate{c.authority.cert}, c.earlier...), func(ca *x509.Certificate) bool {
		return c.leaf.CheckSignatureFrom(ca) == nil
	})
}

// newAuthority creates an authority.
func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("generating the CA's key: %w", err)
	}
	template, err := certificate("nadra webhook CA", now)
	if err != nil {
		return authority{}, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signed, err := sign(template, template, key, key)
	return authority{signed, key}, err
}

// issue creates a new leaf that expires no later than its authority.
func (c *chain) issue(now time.Time, names []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the serving key: %w", err)
	}
	template, err := certificate(names[0], now)
	if err != nil {
		return err
	}
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if template.NotAfter.After(c.authority.cert.NotAfter) {
		template.NotAfter = c.authority.cert.NotAfter
	}
	if c.leaf, err = sign(template, c.authority.cert, key, c.authority.key); err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("encoding the serving key: %w", err)
	}
	c.pair = [2][]byte{encode(c.leaf), keyPEM}
	return nil
}

// certificate returns an unsigned certificate.
func certificate(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generating a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
	}, nil
}

// sign signs a certificate.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// bundle returns all trusted authorities as PEM.
func (c *chain) bundle() []byte {
	var out bytes.Buffer
	for _, ca := range append([]*x509.Certificate{c.authority.cert}, c.earlier...) {
		out.Write(encode(ca))
	}
	return out.Bytes()
}

func encode(c *x509.Certificate) []byte {
	text, err := cert.EncodeCertificates(c)
	if err != nil {
		panic(fmt.Sprintf("encoding a certificate: %v", err))
	}
	return text
}

// data returns the chain as the data of the Secret.
func (c *chain) data() (map[string][]byte, error) {
	key, err := keyutil.MarshalPrivateKeyToPEM(c.authority.key)
	if err != nil {
		return nil, fmt.Errorf("encoding the CA's key: %w", err)
	}
	return map[string][]byte{caCertKey: c.bundle(), caKeyKey: key, tlsCertKey: c.pair[0], tlsKeyKey: c.pair[1]}, nil
}

// readChain reads the data of the Secret. The caller replaces a chain that is invalid or has expired.
func readChain(data map[string][]byte, now time.Time) (*chain, error) {
	authorities, err := cert.ParseCertsPEM(data[caCertKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", caCertKey, err)
	}
	caPair, err := tls.X509KeyPair(encode(authorities[0]), data[caKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", caKeyKey, err)
	}
	key, ok := caPair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("reading %s: not an ECDSA key", caKeyKey)
	}
	pair, err := tls.X509KeyPair(data[tlsCertKey], data[tlsKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", tlsCertKey, tlsKeyKey, err)
	}
	if now.After(authorities[0].NotAfter) {
		return nil, errors.New("the CA has expired")
	}
	return &chain{authority{authorities[0], key}, authorities[1:], pair.Leaf, [2][]byte{data[tlsCertKey], data[tlsKeyKey]}}, nil
}
