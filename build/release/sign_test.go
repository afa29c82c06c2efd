package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	securesystems "github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

const testPassword = "only for this test"

// newKey makes an encrypted key as `cosign generate-key-pair` does, and puts its public half
// into a tree. It returns the private key's file.
func newKey(t *testing.T, tree string) string {
	t.Helper()
	t.Setenv(passwordVariable, testPassword)
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(testPassword)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(private), "ENCRYPTED SIGSTORE PRIVATE KEY") {
		t.Fatalf("the private key is not encrypted: %.40s", private)
	}
	put(t, filepath.Join(tree, publicKeyFile), public)
	file := filepath.Join(t.TempDir(), "cosign.key")
	put(t, file, private)
	return file
}

func put(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// openssl runs the program of this machine, as docs/develop/releasing.md tells those who check a release.
func openssl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput()
	return string(out), err
}

// changed returns content with another byte at half its length.
func changed(content []byte) []byte {
	out := bytes.Clone(content)
	out[len(out)/2] ^= 1
	return out
}

// checkSignature checks the signatures with openssl and with sigstore's library, which cosign
// uses, and that both refuse a changed byte.
func checkSignature(t *testing.T, r *release) {
	public := filepath.Join(r.source, publicKeyFile)
	verifier, err := signature.LoadVerifierFromPEMFile(public, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	sums := read(t, r.out, sumsFile)
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(read(t, r.out, signatureFile))))
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(sig), bytes.NewReader(sums)); err != nil {
		t.Errorf("the library refuses the signature of the sums: %v", err)
	}
	if verifier.VerifySignature(bytes.NewReader(sig), bytes.NewReader(changed(sums))) == nil {
		t.Error("the library accepts changed sums")
	}
	checkWithOpenssl(t, public, filepath.Join(r.out, sumsFile), filepath.Join(r.out, signatureFile))
	checkEnvelope(t, verifier, read(t, r.out, envelopeFile), read(t, r.out, statementFile))
}

func checkWithOpenssl(t *testing.T, public, sums, sig string) {
	t.Helper()
	der, other := filepath.Join(t.TempDir(), "sums.der"), filepath.Join(t.TempDir(), sumsFile)
	if out, err := openssl(t, "base64", "-d", "-A", "-in", sig, "-out", der); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	put(t, other, changed(read(t, sums)))
	if out, err := openssl(t, "dgst", "-sha256", "-verify", public, "-signature", der, sums); err != nil || out != "Verified OK\n" {
		t.Errorf("openssl refuses the sums: %v: %s", err, out)
	}
	if out, err := openssl(t, "dgst", "-sha256", "-verify", public, "-signature", der, other); err == nil || !strings.HasPrefix(out, "Verification failure\n") {
		t.Errorf("openssl accepts changed sums: %s", out)
	}
}

// checkEnvelope checks that the envelope has the statement, and its signature.
func checkEnvelope(t *testing.T, verifier signature.Verifier, envelope, statement []byte) {
	t.Helper()
	check := func(envelope []byte) error {
		return dsse.WrapVerifier(verifier).VerifySignature(bytes.NewReader(envelope), nil)
	}
	if err := check(envelope); err != nil {
		t.Errorf("the library refuses the provenance: %v", err)
	}
	var e securesystems.Envelope
	if err := json.Unmarshal(envelope, &e); err != nil {
		t.Fatal(err)
	}
	payload, err := e.DecodeB64Payload()
	if err != nil || e.PayloadType != payloadType || !bytes.Equal(payload, statement) {
		t.Errorf("the envelope of type %s does not have the statement (%v): %s", e.PayloadType, err, payload)
	}
	e.Payload = base64.StdEncoding.EncodeToString(changed(payload))
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if check(text) == nil {
		t.Error("the library accepts a changed provenance")
	}
}

// TestSignature signs files that are not a release, which takes no time.
func TestSignature(t *testing.T) {
	r := small(t.TempDir(), t.TempDir())
	put(t, filepath.Join(r.out, sumsFile), []byte("0123  nadra.yaml\n"))
	put(t, filepath.Join(r.out, statementFile), []byte(`{"_type": "https://in-toto.io/Statement/v1"}`))
	var err error
	if r.signer, err = loadSigner(newKey(t, r.source), r.source); err != nil {
		t.Fatal(err)
	}
	if err := r.sign(); err != nil {
		t.Fatal(err)
	}
	checkSignature(t, r)
}

// TestKeys checks which private keys are accepted: those whose signatures the tree's public key
// checks.
func TestKeys(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	encrypted := newKey(t, ours)
	newKey(t, theirs)
	generate := func(args ...string) string {
		file := filepath.Join(t.TempDir(), "key.pem")
		if out, err := openssl(t, append(args, "-out", file)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return file
	}
	plain := generate("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
	withPlain := t.TempDir()
	if out, err := openssl(t, "pkey", "-in", plain, "-pubout", "-out", filepath.Join(withPlain, publicKeyFile)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct{ name, key, tree, password, want string }{
		{"of cosign", encrypted, ours, testPassword, ""},
		{"of openssl", plain, withPlain, "", ""},
		{"wrong password", encrypted, ours, "wrong", "set its password in COSIGN_PASSWORD"},
		{"another public key", encrypted, theirs, testPassword, "is of another private key"},
		{"no public key", encrypted, t.TempDir(), testPassword, "commit the public half"},
		{"another curve", generate("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"), ours, "", "not an ECDSA key on P-256"},
		{"another algorithm", generate("genpkey", "-algorithm", "ed25519"), ours, "", "not an ECDSA key on P-256"},
		{"no file", filepath.Join(ours, "absent"), ours, "", "reading the private key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(passwordVariable, tt.password)
			_, err := loadSigner(tt.key, tt.tree)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestUnsigned checks that a release without a key says that it is not signed, and has no
// signatures.
func TestUnsigned(t *testing.T) {
	var log strings.Builder
	r := newRelease()
	r.out, r.log = t.TempDir(), &log
	if err := r.sign(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(r.out)
	if err != nil || len(entries) > 0 || !strings.Contains(log.String(), "nothing is signed") {
		t.Errorf("%d files (%v), and it says %q", len(entries), err, log.String())
	}
}
