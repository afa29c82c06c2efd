// Package controller maintains the objects on which the webhook and the node drivers rely.
//
//	NAD ──────────────► DeviceClass                         one for each network and pool
//	pods ─────────────► ResourceClaimTemplate               missing ones created, unused ones deleted
//	clock, Secret ────► certificate ─► webhooks' caBundle   nadra-controller certificates
//	pods ─────────────► metrics                             pods by what attaches their networks
//
// Pure functions of objects and a time decide what to do (class.go, pool.go, certificate.go); the
// reconcilers beside them read and write. Only the leader writes. All replicas serve admission, so
// all have the certificate and the caches.
//
// The controller only changes objects with v1alpha1.ManagedByLabel. It does not touch objects that users
// created, whatever their names, and policies of manifests/drop-in/controller refuse it. The certificate has a
// process and an account of its own, because whoever may write webhook configurations controls the cluster.
//
// The files:
//
//	setup.go           options, scheme, and the setup of all controllers
//	cache.go           what the cache keeps of objects, and its indexes
//	class.go           decides about the DeviceClass of a network
//	pool.go            decides about the DeviceClass of a resource pool
//	classes.go         maintains DeviceClasses
//	collect.go         deletes unused ResourceClaimTemplates
//	maketemplates.go   creates missing ResourceClaimTemplates of waiting pods
//	certificate.go     decides about the webhooks' certificate and what callers trust
//	certificates.go    maintains the Secret and the caBundle
//	drivers.go         publishes the nodes without a driver
//	migration.go       counts pods by what attaches their networks
package controller
