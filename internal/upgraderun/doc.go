// Package upgraderun carries out what package upgrade plans: it reads a cluster,
// moves its nodes and namespaces between Multus and nadra, and keeps plan and
// progress in the cluster.
//
//	rollouts.go    moves a namespace beside Multus, by rollouts
//	runner.go      Runner: runs a plan, or rolls back
//	run.go         one run: its parts, waves, and the steps of nodes
//	rollback.go    rolls back a node, a namespace, a workload or everything
//	journal.go     phases, pauses, and the saving of the state
//	store.go       the ConfigMap with plan and state
//	lock.go        the Lease that allows one process at a time
//	steps.go       the steps of a node's move
//	nodes.go       cordons, labels and reads nodes
//	drain.go       evicts pods
//	namespaces.go  labels namespaces
//	workload.go    labels the pod templates of workloads
//	multus.go      keeps Multus' DaemonSets off nadra's nodes
//	handover.go    moves Multus' configuration on a node, by a pod there
//	capacity.go    refuses moves that leave pods without a node
//	await.go       waiting and dry runs
//	read.go        reads the cluster
//	remove.go      removes Multus in the end
package upgraderun
