// Package controller keeps in a cluster what the webhook and the node drivers
// stand on.
//
//	NAD ──────────────► DeviceClass                    classes.go, one for each network and pool
//	pods ─────────────► ResourceClaimTemplate           collect.go deletes what nobody refers to,
//	                                                     repair.go makes anew what somebody does
//	clock, Secret ────► certificate ─► webhooks' caBundle   certificates.go writes, serving.go reads
//	pods ─────────────► how many there are of whom         migration.go counts, for metrics
//
// What to do is decided by functions that take objects and a time and do
// nothing (class.go, pool.go, certificate.go); what is beside them asks and does.
// One replica writes, the leader. All replicas serve admission, so all read the
// certificate, and all have the caches.
//
// Nothing is touched that does not carry v1alpha1.ManagedByLabel, apart from the
// caBundle of nadra's own webhook configurations: what people made by hand is
// theirs, whatever its name.
package controller
