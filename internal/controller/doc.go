// Package controller maintains the objects on which the webhook and the node drivers rely.
//
//	NAD ──────────────► DeviceClass                         one for each network and pool
//	pods ─────────────► ResourceClaimTemplate               missing ones created, unused ones deleted
//	clock, Secret ────► certificate ─► webhooks' caBundle   nadra-controller certificates
//	pods ─────────────► metrics                             pods by what attaches their networks
//	nodes, pods ──────► metrics                             nodes without a driver
//	NADs, nodes ──────► ResourceSlice                       those that nodes of the same profile share
//
// Pure functions of objects and a time decide what to do (class.go, pool.go, certificate.go); the
// reconcilers beside them read and write. Only the leader writes. All replicas serve admission, so
// all have the certificate and the caches.
//
// The controller only changes objects with v1alpha1.ManagedByLabel. It does not touch objects that users
// created, whatever their names, and policies of manifests/drop-in/controller refuse it. The certificate has a
// process and an account of its own, because whoever may write webhook configurations controls the cluster.
package controller
