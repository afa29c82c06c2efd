// Package upgrade decides how a cluster moves from Multus to nadra: in which
// waves nodes and namespaces move, which step comes next on a node, and what
// blocks a plan. It is pure; internal/upgraderun reads the cluster and carries
// plans out.
//
//	doc.go           the API version and the kind of plans
//	facts.go         the facts that plans are made from
//	objects.go       facts from the cluster's objects
//	installation.go  facts about nadra's and Multus' installations
//	verdicts.go      facts from the verdicts of scan
//	plan.go          plans as people review and edit them
//	planner.go       cuts a cluster into waves
//	rollout.go       facts about rollouts: what restarts, and what does not
//	rolloutplan.go   cuts a cluster beside Multus into waves of namespaces
//	problems.go      what blocks a plan, and its warnings
//	rules.go         explains the codes of problems
//	markdown.go      a plan as a page
//	state.go         how far a plan is carried out: directions, steps
//	rolloutstate.go  how far the move of a namespace is, beside Multus
//	adopted.go       pods that nadra has adopted
//	capacity.go      whether pods have nodes of their owner to run on
//	multus.go        keeps Multus' DaemonSets off nadra's nodes
//	finish.go        what still needs Multus
package upgrade

// APIVersion is the API version of plans and of their state in the cluster.
// Fields are added within a version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// PlanKind is the kind of Plan.
const PlanKind = "UpgradePlan"
