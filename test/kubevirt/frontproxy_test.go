//go:build e2e

package kubevirt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// frontProxy has the files by which the API server proves its identity to virt-api, an aggregated API
// server: a certificate that signs itself, and its key.
type frontProxy struct{ certificate, key string }

// newFrontProxy writes the files into a folder.
func newFrontProxy(dir string) (frontProxy, error) {
	p := frontProxy{filepath.Join(dir, "front-proxy.crt"), filepath.Join(dir, "front-proxy.key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return p, err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return p, err
	}
	if err := os.WriteFile(p.certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return p, err
	}
	return p, os.WriteFile(p.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600)
}

// args returns the arguments of kube-apiserver that use the files.
func (p frontProxy) args() []string {
	return []string{
		"--requestheader-client-ca-file=" + p.certificate,
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.certificate,
		"--proxy-client-key-file=" + p.key,
	}
}
