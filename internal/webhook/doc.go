// Package webhook answers the API server's requests about pods, claims, templates and classes.
// pkg/admission decides; webhook looks up other objects, creates the templates to which a pod will
// refer, and counts. Every refusal begins with its reason code.
//
// Objects come from the manager's cache. Only an object that is missing there is read from the API
// server, by one GET, because it may have been created together with the pod. The reader then
// assumes for a second that it does not exist, so that a burst of pods with a missing network sends
// one request.
//
// The files:
//
//	register.go   registers the webhooks on a manager
//	pods.go       admits pods
//	claims.go     validates claims, templates and classes
//	lookups.go    reads objects from the cache and the API server
//	memory.go     remembers keys for a while
//	templates.go  creates ResourceClaimTemplates
//	pools.go      which drivers publish the devices of which pools
//	metrics.go    counts and measures, and recovers from panics
package webhook
