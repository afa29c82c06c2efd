// Package bundle makes an archive for support of what was read of a cluster. It
// is pure: objects, logs and figures in, bytes out, without what is nobody's
// business. Package live beside it reads the cluster.
//
// What is taken out is found by names (a value under "password") and by shapes
// (a PEM block, a JWT, the user of an URL); where text cannot be understood,
// more is taken out and not less. The same input gives the same archive.
package bundle

// Mark stands for what was taken out.
const Mark = "[redacted]"

// APIVersion and Kind are those of the index.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "BundleIndex"
)

// What was taken out, as the index counts it.
const (
	credential  = "credential"  // a value by its name
	pemBlock    = "pem"         // keys and certificates
	tokenShape  = "token"       // bearer tokens, JWTs, tokens with a known prefix
	userinfo    = "userinfo"    // of an URL
	caBundle    = "caBundle"    // of a webhook
	environment = "environment" // the value of a variable
	unreadable  = "unreadable"  // a configuration that is no JSON
)
