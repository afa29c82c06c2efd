// Package webhook answers the API server's questions about pods, claims,
// templates and classes. pkg/admission decides; webhook looks up what it must
// know, creates the templates that a pod will refer to, and counts.
//
// What is looked up comes from the manager's cache. Only what is not there is
// asked for, by one GET: it may have been created together with the pod. That it
// does not exist is then believed for a second, so that a burst of pods without
// a network asks once.
package webhook
