// Package webhook answers the API server's requests about pods, claims, templates and classes.
// pkg/admission decides; webhook looks up other objects and counts. It writes nothing. Every refusal
// begins with its reason code.
//
// Kubernetes authenticates API servers to webhooks only if its administrator configures client
// certificates. Without them, webhook refuses the callers that it recognizes as pods.
//
// Objects come from the manager's cache. Only an object that is missing there is read from the API
// server, by one GET, because it may have been created together with the pod. The reader then
// assumes for a second that it does not exist, so that a burst of pods with a missing network sends
// one request.
package webhook
