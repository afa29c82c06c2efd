package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// secrets is the folder with everything that clients and the API server need
// to trust each other: one certificate, which is also its own authority, and
// one token for each user.
type secrets string

const (
	certificateFile = "apiserver.crt"
	certificateKey  = "apiserver.key"
	accountKey      = "service-accounts.key"
	tokenFile       = "tokens.csv"
	admissionFile   = "admission.yaml"
	webhooksUser    = "webhooks"
)

func (s secrets) path(name string) string       { return filepath.Join(string(s), name) }
func (s secrets) kubeconfig(user string) string { return s.path(user + ".kubeconfig") }

// user is the user of a token. Its kubeconfig is named after the file.
type user struct{ file, name, group string }

// users lists the users of the API server. The controller manager is an administrator,
// because its own user has too few rights, and with one account for each controller the
// cluster takes seconds longer to start.
func users(nodes int) []user {
	all := []user{
		{file: "admin", name: "admin", group: "system:masters"},
		{file: "kube-controller-manager", name: "system:kube-controller-manager", group: "system:masters"},
		{file: "kube-scheduler", name: "system:kube-scheduler"},
	}
	for number := 1; number <= nodes; number++ {
		all = append(all, user{file: nodeName(number), name: "system:node:" + nodeName(number), group: "system:nodes"})
	}
	return all
}

// create writes the files of the folder.
func (s secrets) create(nodes int, all families) error {
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	authority, err := s.createCertificate(all)
	if err != nil {
		return fmt.Errorf("making the API server's certificate: %w", err)
	}
	if _, err := s.createKey(accountKey); err != nil {
		return fmt.Errorf("making the key for service accounts: %w", err)
	}
	var tokens strings.Builder
	for _, u := range users(nodes) {
		token := rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, u.name, u.file, u.group)
		if err := s.writeKubeconfig(u.file, token, all.server(), authority); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", u.file, err)
		}
	}
	if err := s.writeAdmission(); err != nil {
		return fmt.Errorf("writing the configuration of admission: %w", err)
	}
	return os.WriteFile(s.path(tokenFile), []byte(tokens.String()), 0o600)
}

// writeAdmission configures the API server to present its certificate to nadra's webhooks, which only
// matters if they ask for one.
func (s secrets) writeAdmission() error {
	config := clientcmdapi.NewConfig()
	config.AuthInfos["nadra-webhook.nadra-system.svc"] = &clientcmdapi.AuthInfo{ClientCertificate: s.path(certificateFile), ClientKey: s.path(certificateKey)}
	if err := clientcmd.WriteToFile(*config, s.kubeconfig(webhooksUser)); err != nil {
		return err
	}
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		text += fmt.Sprintf("- {name: %s, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %q}}\n",
			plugin, s.kubeconfig(webhooksUser))
	}
	return os.WriteFile(s.path(admissionFile), []byte(text), 0o600)
}

func (s secrets) createCertificate(all families) (encoded []byte, err error) {
	key, err := s.createKey(certificateKey)
	if err != nil {
		return nil, err
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, f := range all {
		ips = append(ips, net.ParseIP(f.controlPlane), net.ParseIP(f.service))
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "nadra test cluster"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           ips,
		DNSNames:              []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	encoded = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return encoded, os.WriteFile(s.path(certificateFile), encoded, 0o644)
}

func (s secrets) createKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return key, os.WriteFile(s.path(name), encoded, 0o600)
}

func (s secrets) writeKubeconfig(user, token, server string, authority []byte) error {
	const name = "nadra"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, s.kubeconfig(user))
}
