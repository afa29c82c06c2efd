package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ClientAuthority returns a function that makes a TLS server verify client certificates by the
// authorities in a file. The server admits connections without a certificate: the readiness check opens
// one. Register refuses their requests.
func ClientAuthority(file string) (func(*tls.Config), error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of client certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the authority of client certificates: %s has no certificate in PEM", file)
	}
	return func(c *tls.Config) { c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven }, nil
}
