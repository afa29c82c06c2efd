package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

const (
	// signatureFile is the signature of the sums, as cosign and openssl read it: DER in base64.
	signatureFile = sumsFile + ".sig"
	// envelopeFile is the signed provenance: a DSSE envelope.
	envelopeFile = "nadra.intoto.jsonl"
	// payloadType is that of an in-toto statement in an envelope.
	payloadType = "application/vnd.in-toto+json"
	// publicKeyFile is the release key's public half, at the root of the source tree.
	publicKeyFile = "cosign.pub"
	// passwordVariable is the environment variable with the password of a private key, as for cosign.
	passwordVariable = "COSIGN_PASSWORD"
)

// loadSigner reads the private key of a file: one of `cosign generate-key-pair`, or an unencrypted
// one of openssl. It refuses a key whose signatures the tree's users cannot check: another kind
// than ECDSA P-256, or one that is not that of the tree's public key.
func loadSigner(file, tree string) (signature.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, cryptoutils.StaticPasswordFunc([]byte(os.Getenv(passwordVariable))))
	if err != nil {
		return nil, fmt.Errorf("reading the private key %s: %w: set its password in %s", file, err, passwordVariable)
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the private key %s is not an ECDSA key on P-256: make one with `cosign generate-key-pair`", file)
	}
	if err := checkPublic(filepath.Join(tree, publicKeyFile), key.Public()); err != nil {
		return nil, err
	}
	return signature.LoadECDSASigner(key, crypto.SHA256)
}

// checkPublic compares the public key of the private one with that of the tree, by which
// strangers check the release.
func checkPublic(file string, want crypto.PublicKey) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: commit the public half of the private key as %s, so that others can check the signature", err, publicKeyFile)
	}
	if err != nil {
		return fmt.Errorf("reading the public key: %w", err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return fmt.Errorf("reading the public key %s: %w", file, err)
	}
	if err := cryptoutils.EqualKeys(public, want); err != nil {
		return fmt.Errorf("the public key %s is of another private key: sign with that one, or commit the new public key: %w", file, err)
	}
	return nil
}

// sign writes the signatures of the sums and of the provenance. They differ each time, so no
// sum and no statement covers them. Without a key it writes nothing and says so.
func (r *release) sign() error {
	if r.signer == nil {
		_, err := fmt.Fprintln(r.log, "release: nothing is signed, because there is no private key: make release KEY=cosign.key")
		return err
	}
	sums, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	sig, err := r.signer.SignMessage(bytes.NewReader(sums))
	if err != nil {
		return fmt.Errorf("signing %s: %w", sumsFile, err)
	}
	statement, err := os.ReadFile(filepath.Join(r.out, statementFile))
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	envelope, err := dsse.WrapSigner(r.signer, payloadType).SignMessage(bytes.NewReader(statement))
	if err != nil {
		return fmt.Errorf("signing %s: %w", statementFile, err)
	}
	if err := r.write(signatureFile, []byte(base64.StdEncoding.EncodeToString(sig))); err != nil {
		return err
	}
	if err := r.write(envelopeFile, append(envelope, '\n')); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.log, "release: wrote the signatures %s and %s; %s of the source tree checks them\n", signatureFile, envelopeFile, publicKeyFile)
	return err
}
