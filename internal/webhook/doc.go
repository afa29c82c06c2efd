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
//
// The files:
//
//	register.go   registers the webhooks on a manager
//	guard.go      refuses callers, and bounds what each can hold
//	callers.go    recognizes pods by their addresses
//	clientcert.go reads the authority of client certificates
//	pods.go       admits pods
//	decider.go    decides about pods, also for the controller that creates templates
//	claims.go     validates claims, templates and classes
//	lookups.go    reads objects from the cache and the API server
//	pools.go      which drivers publish the devices of which pools
//	metrics.go    counts and measures, and recovers from panics
package webhook
