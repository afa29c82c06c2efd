// Package bundle makes a redacted support archive. It is pure: it takes objects, logs and
// metrics, which package bundleread reads, and returns the archive's bytes. The same input
// gives the same archive.
//
// It redacts credentials, which it recognizes by names (a value under "password") and by
// shapes (a PEM block, a JWT, the user in an URL). If it cannot parse a text, it redacts
// more, and not less.
//
//	bundle.go     the archive and its index
//	reduce.go     which fields of objects are kept
//	tree.go       redacts JSON
//	text.go       redacts text
//	values.go     finds the values of names in text
//	words.go      whether a name is a credential's
//	addresses.go  replaces addresses by pseudonyms
//	doc.go        kinds of redactions
package bundle

// Mark replaces what is redacted.
const Mark = "[redacted]"

// APIVersion and Kind are those of the index.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "BundleIndex"
)

// Kinds of redactions, which the index counts.
const (
	credential  = "credential"  // a value by its name
	pemBlock    = "pem"         // keys and certificates
	tokenShape  = "token"       // bearer tokens, JWTs, tokens with a known prefix
	userinfo    = "userinfo"    // in an URL
	caBundle    = "caBundle"    // of a webhook
	environment = "environment" // the value of a variable
	unreadable  = "unreadable"  // a configuration that is not JSON
)
